"""Names the election of `__consumer_offsets` that lost a copier's offset, so that its inputs were copied again.

A transaction with copies is committed only after the coordinator of their group acked its offset. So the offset is a
committed record in `__consumer_offsets`, and it is attributed as a lost commit is (`lost_commits`). An input that was
copied again is explained if both hold for each two of its committed copies in a row:

- The group had lost its place: between the end of the first transaction and the second copy, the coordinator was asked
  for the last time, and showed nothing above the input.
- The cause of the lost offset is known.

What has no explanation has no cause here, and says so in its `why`. The clause on copies decides what it means.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow.compute as pc

from analysis.judge.causes.lost_commits import attribute_commit
from analysis.judge.clauses.outcome_checks import AttributedAnomaly
from analysis.judge.history.batches import batches
from analysis.judge.history.evidence import Attribution, Evidence
from analysis.judge.history.offset_marks import Mark, marks_of
from analysis.reconcile.model import CommitItem, WrongCopies
from ebbtide.record.clients import read_client_events
from ebbtide.scenario.group_offsets import OFFSETS_PARTITION, OFFSETS_TOPIC

REPEATED = "copied-twice"


class _Copy(msgspec.Struct, frozen=True, order=True):
    """A committed copy of an input: when it was sent, and which transaction of its producer it is in."""

    sent_ns: int
    input: int
    producer: int
    txn: int


class _Answer(msgspec.Struct, frozen=True):
    """What the leader of the group's partition showed: an offset, or nothing."""

    done_ns: int
    asked_ns: int
    offset: int | None


def attributed_repeats(
    evidence: Evidence, copies: Collection[WrongCopies], groups: Collection[str]
) -> list[AttributedAnomaly]:
    """Return the inputs that copiers of these groups copied again, by partition and what explains that.

    `what` says of which group and partition they are. Raises `UsageError` when a table is damaged.
    """
    repeated = [one for one in copies if one.kind == REPEATED and one.group in groups]
    if not repeated:
        return []
    explaining = _Explaining(evidence)
    return [anomaly for one in repeated for anomaly in explaining.attributed(one)]


class _Explaining:
    """Explains repeated inputs; keeps what it looked up of the record."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._marks: list[Mark] = marks_of(evidence.record, OFFSETS_TOPIC, OFFSETS_PARTITION)
        self._ends = _transaction_ends(evidence.record)
        self._known: dict[tuple[int, int, int], Attribution] = {}

    def attributed(self, repeated: WrongCopies) -> list[AttributedAnomaly]:
        """Return the inputs of one partition, grouped by their explanation."""
        answers = _answers(self._evidence, repeated)
        found: Counter[Attribution] = Counter()
        for copies in _repeated_copies(self._evidence.record, repeated):
            reasons = [self._explain(first, second, answers) for first, second in pairwise(copies)]
            found[min(reasons, key=lambda one: one.cause is not None)] += 1
        return [
            AttributedAnomaly(
                topic=OFFSETS_TOPIC,
                partition=OFFSETS_PARTITION,
                what={"kind": REPEATED, "group": repeated.group, "of": f"{repeated.topic}-{repeated.partition}"},
                count=count,
                committed=True,
                attribution=attribution,
            )
            for attribution, count in found.items()
        ]

    def _explain(self, first: _Copy, second: _Copy, answers: list[_Answer]) -> Attribution:
        ended_ns = self._ends.get((first.producer, first.txn))
        if ended_ns is None:
            return _unexplained("when the transaction of the first copy ended is not known")
        at = bisect_right(answers, second.sent_ns, key=lambda one: one.done_ns) - 1
        if at < 0 or answers[at].asked_ns < ended_ns:
            return _unexplained("no coordinator was asked for the group's offset between the two copies")
        if (shown := answers[at].offset) is not None and shown > first.input:
            return _unexplained(f"the coordinator showed the offset {shown} before the second copy")
        key = (first.producer, first.txn, self._epoch_at(second.sent_ns))
        if key not in self._known:
            self._known[key] = self._attribute(first, second, ended_ns)
        return self._known[key]

    def _attribute(self, first: _Copy, second: _Copy, ended_ns: int) -> Attribution:
        since, until = self._epoch_at(first.sent_ns), self._epoch_at(second.sent_ns)
        if self._epoch_at(ended_ns) != since or until <= since:
            return _unexplained("under which leader epoch of the coordinator the offset was committed is not known")
        state = self._evidence.timeline.state_at_time(OFFSETS_TOPIC, OFFSETS_PARTITION, second.sent_ns)
        assert state is not None
        commit = CommitItem(
            commit=first.txn,
            offset=first.input + 1,
            sent_ns=first.sent_ns,
            at_ns=ended_ns,
            broker=state.leader,
            leader_epoch=until,
            offsets_partition=OFFSETS_PARTITION,
            asked_ns=second.sent_ns,
        )
        found = attribute_commit(self._evidence, commit, self._marks)
        return _unexplained(found.why) if found.cause in (None, "unexplained") else found

    def _epoch_at(self, at_ns: int) -> int:
        state = self._evidence.timeline.state_at_time(OFFSETS_TOPIC, OFFSETS_PARTITION, at_ns)
        return -1 if state is None else state.leader_epoch


def _unexplained(why: str) -> Attribution:
    return Attribution(cause=None, election=None, why=why)


def _repeated_copies(record: Path, repeated: WrongCopies) -> list[list[_Copy]]:
    """Return the committed copies of each input with two or more, in the order in which they were sent."""
    where = (
        (pc.field("group") == repeated.group)
        & (pc.field("topic") == repeated.topic)
        & (pc.field("partition") == repeated.partition)
    )
    columns = ["offset", "producer", "value", "sent_ns"]
    of_input: dict[int, list[dict[str, int]]] = defaultdict(list)
    for batch in batches(record, "copies", columns, where):
        for row in batch.to_pylist():
            of_input[row["offset"]].append(row)
    several = [rows for rows in of_input.values() if len(rows) > 1]
    transactions = _committed(record, {row["value"] for rows in several for row in rows})
    copies = [
        sorted(
            _Copy(row["sent_ns"], row["offset"], row["producer"], transactions[row["value"]])
            for row in rows
            if row["value"] in transactions
        )
        for rows in several
    ]
    return [one for one in copies if len(one) > 1]


def _committed(record: Path, values: Collection[int]) -> Mapping[int, int]:
    """Return the transactions of those of the values that are certainly committed."""
    found: dict[int, int] = {}
    where = (pc.field("txn_outcome") == "committed") & pc.field("txn").is_valid()
    for batch in batches(record, "sends", ["value", "txn"], where):
        for row in batch.to_pylist():
            if row["value"] in values:
                found[row["value"]] = row["txn"]
    return found


def _transaction_ends(record: Path) -> Mapping[tuple[int, int], int]:
    """Return when the producer learned that a transaction is committed, by producer and transaction."""
    return {
        (int(client.removeprefix("producer-")), event.txn): event.at_ns
        for client, events in (read_client_events(record) or {}).items()
        if client.startswith("producer-")
        for event in events
        if event.event == "transaction" and event.outcome == "committed" and event.txn is not None
    }


def _answers(evidence: Evidence, repeated: WrongCopies) -> list[_Answer]:
    """Return the coordinator's answers, in order: those of brokers that led from the question to the answer."""
    where = (
        (pc.field("status") == "served")
        & (pc.field("group") == repeated.group)
        & (pc.field("topic") == repeated.topic)
        & (pc.field("partition") == repeated.partition)
        & pc.field("done_ns").is_valid()
    )
    found = []
    for batch in batches(evidence.record, "commits", ["asked_ns", "done_ns", "offset", "broker"], where):
        for row in batch.to_pylist():
            asked, done = (
                evidence.timeline.state_at_time(OFFSETS_TOPIC, OFFSETS_PARTITION, row[name])
                for name in ("asked_ns", "done_ns")
            )
            if asked is not None and asked is done and asked.leader == row["broker"]:
                found.append(_Answer(row["done_ns"], row["asked_ns"], row["offset"]))
    return sorted(found, key=lambda one: (one.done_ns, one.asked_ns))
