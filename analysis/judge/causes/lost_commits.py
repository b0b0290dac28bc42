"""Names the election of `__consumer_offsets` that lost a group's commit, and its cause.

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

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from analysis.causes.evidence import UNKNOWN
from analysis.causes.from_record import EvidentRecord
from analysis.judge.causes.attribution import attribute, gravest, unknown
from analysis.judge.history.evidence import AttributedAnomaly, Attribution, LostOffset
from analysis.reconcile.model import CommitItem, LostCommits
from analysis.record.elections import elections_of
from ebbtide.record.rows import PartitionState
from ebbtide.scenario.internal_topics import OFFSETS_TOPIC

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
