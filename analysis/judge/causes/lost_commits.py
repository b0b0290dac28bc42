"""Names the election of `__consumer_offsets` that lost a group's commit or a copier's offset, and its cause.

A commit is a record in its group's partition of `__consumer_offsets`, which the coordinator acks once
every in-sync replica has it. So it is attributed as a committed record is, with two differences:

- Its offset there is known only between bounds: the HWs that the partition's leaders served before it
  was sent and after it was acked, and where a disk's log ended when it lost its end. It is attributed
  at both bounds. What holds at both holds in between; where they differ, the cause is not known.
- It was missing when a coordinator was asked, so no later election is guilty.

A coordinator that is not settled yet may serve an older commit, and nothing is lost: such an answer
has no cause, and says nothing against Kafka.

Without an election in between, only the coordinator itself can have forgotten it. That is held against
Kafka if no other broker ever led the partition. Else a deposed leader may have acked it late.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec

from analysis.causes.evidence import UNKNOWN
from analysis.causes.from_record import EvidentRecord
from analysis.judge.causes.attribution import attribute, gravest, unknown
from analysis.judge.causes.copier_history import (
    CopyingTxn,
    SentCopy,
    ShownOffset,
    ShownOffsets,
    TransactionEnds,
    TxnKey,
    read_copies,
    read_shown,
    transactions_of,
)
from analysis.judge.history.evidence import AttributedAnomaly, Attribution, LostOffset
from analysis.reconcile.model import CommitItem, LostCommits, WrongCopies
from analysis.record.elections import elections_of
from ebbtide.record.rows import PartitionState
from ebbtide.rules.table import COPIED_TWICE
from ebbtide.scenario.internal_topics import OFFSETS_PARTITION, OFFSETS_TOPIC

_UNSETTLED = unknown(
    "the coordinator was new, and its HW had not reached the start of its leader epoch "
    "(docs/findings/stale-committed-offset.md)",
)


class OffsetBounds(NamedTuple):
    """The lowest and the highest offset at which a record can lie; `highest` None: not known."""

    lowest: int
    highest: int | None


def attributed_commits(
    evident: EvidentRecord, commits: Iterable[LostCommits]
) -> Iterator[AttributedAnomaly[LostCommits]]:
    """Yield the lost and fallen commits with their causes."""
    for one in commits:
        # The graver one of the first and the last item.
        found = [attribute_commit(evident, each) for each in (one.last, one.first) if one.settled]
        yield AttributedAnomaly(items=one, committed=True, attribution=gravest(found) if found else _UNSETTLED)


def attribute_commit(evident: EvidentRecord, commit: CommitItem) -> Attribution:
    """Return the election that lost a commit, and its cause. Raises `UsageError` when a table is damaged."""
    name = f"{OFFSETS_TOPIC}-{commit.offsets_partition}"
    states = evident.record.timeline.states(OFFSETS_TOPIC, commit.offsets_partition)
    if not states:
        why = f"the metadata timeline of {name} is missing (partitions.parquet)"
        return unknown(why)
    acked_under = evident.record.timeline.state_at_time(OFFSETS_TOPIC, commit.offsets_partition, commit.at_ns)
    assert acked_under is not None
    if acked_under.leader_epoch >= commit.leader_epoch:
        return _without_election(evident, commit, name)
    bounds = _bounds(evident, commit, acked_under)
    lost_offset = LostOffset(
        topic=OFFSETS_TOPIC,
        partition=commit.offsets_partition,
        offset=bounds.lowest,
        since_ns=commit.at_ns,
        since_epoch=acked_under.leader_epoch,
        until_epoch=commit.leader_epoch,
    )
    lowest = attribute(evident, lost_offset)
    if bounds.highest is None:
        if lowest.cause not in ("unexplained", None) and not _came_before(evident, lost_offset, lowest):
            return lowest
        why = f"where in {name} the commit was is not known: no HW was served after it was acked"
        return unknown(why)
    highest = attribute(evident, msgspec.structs.replace(lost_offset, offset=bounds.highest))
    if highest.cause is None and highest.election is None:
        why = f"no election of {name} up to leader epoch {commit.leader_epoch} is known to have lost the commit"
        return msgspec.structs.replace(highest, why=why)
    if (lowest.cause, lowest.election) == (highest.cause, highest.election):
        return highest
    why = (
        f"the commit was at an offset of {name} from {bounds.lowest} to {bounds.highest}, "
        "which were not lost by one election"
    )
    return unknown(why)


def _came_before(evident: EvidentRecord, lost_offset: LostOffset, found: Attribution) -> bool:
    """Return whether an election before that of `found` may have lost a commit at a higher offset."""
    if found.election is None:  # several may have lost it
        return True
    elections = elections_of(evident.record.timeline, lost_offset.topic, lost_offset.partition)
    return any(lost_offset.since_epoch < one.epoch < found.election.epoch for one in elections)


def _without_election(evident: EvidentRecord, commit: CommitItem, name: str) -> Attribution:
    """Attribute a commit that was missing under the leader epoch in which it was acked."""
    states = evident.record.timeline.states(OFFSETS_TOPIC, commit.offsets_partition)
    leaders = {one.leader for one in states if one.leader_epoch <= commit.leader_epoch}
    why = f"no election of {name} is between the commit and the answer that lacks it"
    if leaders == {commit.broker} and not (evident.record.timeline.torn or evident.record.timeline.gaps):
        return Attribution(cause="unexplained", election=None, why=f"{why}, and no other broker ever led")
    return unknown(f"{why}; a deposed coordinator may have acked it late")


def _bounds(evident: EvidentRecord, commit: CommitItem, state: PartitionState) -> OffsetBounds:
    """Return where the commit lies that the leader of `state` acked.

    Whoever appends a record after a leader answered with its HW appends it at that offset or above. A leader that acks
    a record to all of its ISR has raised its HW above it by then. So HWs of that leader epoch that were asked for
    before and after bound the offset. Where the leader's disk lost its end, the commit was below that end.
    """
    served = evident.partition(OFFSETS_TOPIC, commit.offsets_partition).evidence.watermarks
    own = (served.epoch == state.leader_epoch) & (served.asked_ns != UNKNOWN)
    before = served.high_watermark[own & (served.at_ns <= commit.sent_ns)]
    after = served.high_watermark[own & (served.asked_ns >= commit.at_ns)]
    lowest = int(before.max(initial=0))
    if len(after):
        return OffsetBounds(lowest=lowest, highest=max(int(after.min()) - 1, lowest))
    name = f"{OFFSETS_TOPIC}-{commit.offsets_partition}"
    ends = [
        loss.starts[name] - 1
        for loss in evident.record.log_losses or ()
        if loss.broker == state.leader and loss.fired_ns >= commit.at_ns and name in loss.starts
    ]
    return OffsetBounds(lowest=lowest, highest=max(lowest, ends[0]) if ends else None)


def attributed_repeats(
    evident: EvidentRecord, copies: Collection[WrongCopies], groups: Collection[str]
) -> list[AttributedAnomaly[WrongCopies]]:
    """Return the inputs that copiers of these groups copied again, by partition and what explains that.

    A transaction with copies is committed only after the coordinator of their group acked its offset. So the offset is
    a committed record in `__consumer_offsets`, and it is attributed as a lost commit is. An input that was copied again
    is explained if all of these hold for each two of its copies in a row:

    - The transactions of both are certainly committed.
    - The group had lost its place: from the end of the first transaction to the second copy, the coordinator was asked,
      and from some answer on it showed nothing above the input.
    - An election up to that answer lost the offset, and its cause is known.
    - The group did not get its place back: from the election on, no answer showed an offset above the input, and no
      transaction that copied the input or a later one can have been committed before that of the second copy began.
    - The copier read its place again: one of its transactions ended after the election, and before that of the second
      copy, in another way than by a commit that it knows of. It goes back to where its group is then.

    What has no explanation has no cause here, and says so in its `why`. The clause on copies decides what it means.
    Raises `UsageError` when a table is damaged.
    """
    repeated = [one for one in copies if one.kind == COPIED_TWICE and one.group in groups]
    if not repeated:
        return []
    ends = TransactionEnds(evident.record)
    return [anomaly for one in repeated for anomaly in _Explaining(evident, one, ends).attributed()]


class _Explaining:
    """Explains the repeated inputs of one partition; keeps what it looked up of the record."""

    def __init__(self, evident: EvidentRecord, repeated: WrongCopies, ends: TransactionEnds) -> None:
        self._evident = evident
        self._repeated = repeated
        self._ends = ends
        self._answers = ShownOffsets(evident.record, evident.record.timeline, repeated)
        self._copies = read_copies(evident.record, repeated)
        self._transactions = transactions_of(self._copies)
        self._known: dict[tuple[TxnKey, int], Attribution] = {}
        self._overtaking: dict[int, _Overtaking] = {}

    def attributed(self) -> list[AttributedAnomaly[WrongCopies]]:
        """Return the inputs, grouped by their explanation."""
        found: Counter[Attribution] = Counter()
        for copies in self._repeated_copies():
            reasons = [self._explain(first, second) for first, second in pairwise(copies)]
            found[min(reasons, key=lambda one: one.cause is not None)] += 1
        return [
            AttributedAnomaly(
                items=msgspec.structs.replace(self._repeated, count=count), committed=True, attribution=attribution
            )
            for attribution, count in found.items()
        ]

    def _repeated_copies(self) -> list[list[SentCopy]]:
        """Return the copies of each input with two or more that are visible, in the order in which they were sent."""
        of_input: dict[int, list[SentCopy]] = defaultdict(list)
        for one in self._copies:
            of_input[one.input].append(one)
        several = [sorted(copies) for copies in of_input.values() if len(copies) > 1]
        in_doubt = {one.value for copies in several for one in copies if not one.is_certain}
        shown = read_shown(self._evident.record, in_doubt)
        return [copies for copies in several if sum(one.is_certain or one.value in shown for one in copies) > 1]

    def _explain(self, first: SentCopy, second: SentCopy) -> Attribution:
        if not (first.is_certain and second.is_certain):
            return unknown("how the transaction of a copy ended is not known")
        ended_ns = self._ends.committed_ns(first.of)
        if ended_ns is None:
            return unknown("when the transaction of the first copy ended is not known")
        among = self._answers.between(ended_ns, second.sent_ns)
        if not among:
            return unknown("no coordinator was asked for the group's offset between the two copies")
        above = self._answers.last_above(among, first.input)
        lacking = self._first_lacking(first, among, above)
        if lacking is None:
            if above is None:
                return unknown("no later coordinator was asked for the group's offset between the two copies")
            return unknown(f"the coordinator showed the offset {self._answers[above].offset} before the second copy")
        key = (first.of, lacking.leader_epoch)
        if key not in self._known:
            self._known[key] = self._attribute(first, ended_ns, lacking)
        found = self._known[key]
        if found.cause is None:
            return found
        why_not = self._why_no_excuse(first, second, found, None if above is None else self._answers[above])
        return found if why_not is None else unknown(why_not)

    def _first_lacking(self, first: SentCopy, among: range, above: int | None) -> ShownOffset | None:
        """Return the first answer that lacks the offset, and that no answer with it follows.

        A coordinator shows an offset once the marker of its transaction is written, which may be after the producer
        knows that it is committed, and before the producer's next one is.
        """
        if above is not None:
            return self._answers[above + 1] if above + 1 < among.stop else None
        assert first.of.txn is not None
        since = self._epoch_at(self._transactions[first.of].sent_ns)
        settled_ns = self._ends.next_committed_ns(first.of.producer, first.of.txn)
        for at in among:
            answer = self._answers[at]
            if answer.leader_epoch > since or (settled_ns is not None and answer.asked_ns >= settled_ns):
                return answer
        return None

    def _attribute(self, first: SentCopy, ended_ns: int, lacking: ShownOffset) -> Attribution:
        sent_ns = self._transactions[first.of].sent_ns
        since = self._epoch_at(sent_ns)
        if lacking.leader_epoch <= since:
            return unknown("the coordinator lacked the offset under the leader epoch in which it was committed")
        if self._epoch_at(ended_ns) != since:
            return unknown("under which leader epoch of the coordinator the offset was committed is not known")
        assert first.of.txn is not None
        commit = CommitItem(
            commit=first.of.txn,
            offset=first.input + 1,
            sent_ns=sent_ns,
            at_ns=ended_ns,
            broker=lacking.broker,
            leader_epoch=lacking.leader_epoch,
            offsets_partition=OFFSETS_PARTITION,
            asked_ns=lacking.asked_ns,
        )
        found = attribute_commit(self._evident, commit)
        return unknown(found.why) if found.cause in (None, "unexplained") else found

    def _why_no_excuse(
        self, first: SentCopy, second: SentCopy, found: Attribution, above: ShownOffset | None
    ) -> str | None:
        """Return why the election that lost the offset is no excuse for the second copy; None: it is one."""
        if found.election is None:
            return "which election lost the offset is not known"
        epoch = found.election.epoch
        if above is not None and above.leader_epoch >= epoch:
            return f"a coordinator showed the offset {above.offset} after the election that lost the offset"
        if epoch not in self._overtaking:
            self._overtaking[epoch] = _Overtaking(
                of for key, of in self._transactions.items() if self._may_end_since(key, epoch)
            )
        if self._overtaking[epoch].highest_before(self._transactions[second.of].sent_ns) >= first.input:
            return "another transaction may have committed an offset above the input after the election that lost it"
        assert second.of.txn is not None
        read_again_ns = self._ends.last_not_committed_ns(second.of.producer, second.of.txn)
        if read_again_ns is None or self._epoch_at(read_again_ns) < epoch:
            return "the copier is not known to have read its group's offset after the election that lost it"
        return None

    def _may_end_since(self, key: TxnKey, epoch: int) -> bool:
        """Whether a transaction ended under this leader epoch or later, or nobody knows when."""
        ended_ns = self._ends.ended_ns(key)
        return ended_ns is None or self._epoch_at(ended_ns) >= epoch

    def _epoch_at(self, at_ns: int) -> int:
        state = self._evident.record.timeline.state_at_time(OFFSETS_TOPIC, OFFSETS_PARTITION, at_ns)
        return -1 if state is None else state.leader_epoch


class _Overtaking:
    """The highest input of the transactions that began before a time."""

    def __init__(self, transactions: Iterable[CopyingTxn]) -> None:
        known = sorted(transactions, key=lambda one: one.sent_ns)
        self._begun_ns = [one.sent_ns for one in known]
        self._highest = list(accumulate((one.highest for one in known), max))

    def highest_before(self, at_ns: int) -> int:
        """Return the highest input; -1 if none began before."""
        at = bisect_left(self._begun_ns, at_ns)
        return self._highest[at - 1] if at else -1
