"""Says why a record that was acked with acks=0 or 1 and never committed was lost.

acks=0 and acks=1 promise nothing across a change of leader, whatever the election. They do promise that a
leader which stays keeps the records of its log, unless the harness took them from its disk. A
deposed leader may answer long after its successor was elected. So an election before the
acknowledgement excuses the loss too, unless its leader held the offset, or the record is surely newer
(`deposed_leaders`). An election that only raised the epoch changed no leader; a shrink of the ISR did so before
metadata.version 3.6-IV0.

*unexplained* needs the whole evidence: a metadata log without gaps, the steps, and the leader's log
after the run, since the final read ends at the HW.
"""

from __future__ import annotations

from analysis.judge.causes.deposed_leaders import LostRecord
from analysis.judge.history.evidence import Attribution, LostOffset
from analysis.record.elections import ElectionEvent, elections_of
from analysis.record.record import Record
from ebbtide.record.verdict import Cause


def why_uncommitted(record: Record, lost_offset: LostOffset, guilty: ElectionEvent | None) -> Attribution:
    """Return the cause of the loss of an uncommitted record.

    `guilty` is the first election after the acknowledgement whose leader may have lacked the
    offset.
    """

    def attribution(cause: Cause | None, why: str, election: ElectionEvent | None = None) -> Attribution:
        return Attribution(cause=cause, election=election, why=why)

    topic, partition = lost_offset.topic, lost_offset.partition
    changes = [one for one in elections_of(record.timeline, topic, partition) if one.changes_leader]
    possible = changes
    if guilty is None or not guilty.changes_leader:
        lost_record = LostRecord(record, lost_offset)
        possible = [one for one in changes if lost_record.may_be_older_than(one)]
        held = record.epochs.has_held
        unheld = (one for one in reversed(possible) if not held(topic, partition, one.epoch, lost_offset.offset))
        guilty = next(unheld, None)
    if guilty is not None:
        why = "it was acked with acks=0 or 1 and never committed when the leader changed"
        return attribution("uncommitted-at-failover", why, guilty)
    if _is_lost_by_a_disk(record, lost_offset, at_any_time=not changes):
        why = "it was acked with acks=0 or 1 and never committed when its leader's log was lost"
        return attribution("uncommitted-at-failover", why)
    if possible:
        return attribution(None, f"every leader of {lost_offset.name} that was elected held something at its offset")
    lacking = _lacking_evidence(record, lost_offset)
    if lacking is not None:
        return attribution(None, lacking)
    return attribution(
        "unexplained",
        "it was acked with acks=0 or 1; no leader was elected after it was sent, and the leader's disk lost no data",
    )


def _is_lost_by_a_disk(record: Record, lost_offset: LostOffset, *, at_any_time: bool) -> bool:
    """Return whether a disk took the offset from a broker that led.

    `at_any_time`: losses before the acknowledgement count too.
    """
    leaders = {state.leader for state in record.timeline.states(lost_offset.topic, lost_offset.partition)}
    return any(
        loss.broker in leaders
        and loss.can_reach(lost_offset.topic, lost_offset.partition, lost_offset.offset)
        and (at_any_time or loss.done_ns >= lost_offset.since_ns)
        for loss in record.log_losses or ()
    )


def _lacking_evidence(record: Record, lost_offset: LostOffset) -> str | None:
    """Return what the evidence lacks to prove that a stable leader lost the record."""
    if record.log_losses is None:
        return record.why_disks_unknown
    if record.timeline.torn or record.timeline.gaps:
        return "the metadata log is not known to be whole, so an election may be missing (evidence.json)"
    leader = record.timeline.states(lost_offset.topic, lost_offset.partition)[-1].leader
    if not record.epochs.has_log(lost_offset.topic, lost_offset.partition, leader):
        return f"the log of its leader, broker {leader}, is not in replicas/"
    return None
