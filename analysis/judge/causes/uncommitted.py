"""Why a record that was acked with acks=0/1 and never committed is gone.

acks=0/1 promise nothing across a change of leader, whatever the election. Of a leader that stays they do: its log
keeps what it took, unless the harness took it from its disk. A leader that was deposed may answer long after, so an
election before the acknowledgement excuses as well, unless its leader held the offset. One that only raised the
epoch, as a shrink of the ISR did before metadata.version 3.6-IV0, changed no leader.

Unexplained needs the whole evidence: a metadata log without gaps, the steps, and the leader's log after the run,
since the final read ends at the HW.
"""

from __future__ import annotations

from analysis.judge.history.elections import Elected, elections_of
from analysis.judge.history.evidence import Attribution, Evidence, Gone
from ebbtide.record.verdict import Cause


def why_uncommitted(evidence: Evidence, gone: Gone, guilty: Elected | None) -> Attribution:
    """The cause; `guilty` is the first election after the acknowledgement whose leader may not have held the offset."""

    def found(cause: Cause | None, why: str, election: Elected | None = None) -> Attribution:
        return Attribution(cause=cause, election=election, why=why)

    elections = [one for one in elections_of(evidence.timeline, gone.topic, gone.partition) if one.moved]
    if guilty is None or not guilty.moved:
        unheld = (
            one
            for one in reversed(elections)
            if not evidence.epochs.held(gone.topic, gone.partition, one.epoch, gone.offset)
        )
        guilty = next(unheld, None)
    if guilty is not None:
        why = "it was acked with acks=0/1 and never committed when the leader changed"
        return found("uncommitted-at-failover", why, guilty)
    if _lost_by_a_disk(evidence, gone, at_any_time=not elections):
        why = "it was acked with acks=0/1 and never committed when its leader's log was lost"
        return found("uncommitted-at-failover", why)
    if elections:
        return found(None, f"every leader of {gone.name} that was elected held something at its offset")
    lacking = _lacking(evidence, gone)
    if lacking is not None:
        return found(None, lacking)
    return found("unexplained", "it was acked with acks=0/1 by a leader that never changed, nor did its disk lose data")


def _lost_by_a_disk(evidence: Evidence, gone: Gone, *, at_any_time: bool) -> bool:
    """Whether a disk took the offset from a broker that led; `at_any_time`: also before the acknowledgement."""
    leaders = {state.leader for state in evidence.timeline.states(gone.topic, gone.partition)}
    return any(
        loss.broker in leaders
        and loss.reaches(gone.topic, gone.partition, gone.offset)
        and (at_any_time or loss.done_ns >= gone.since_ns)
        for loss in evidence.log_losses or ()
    )


def _lacking(evidence: Evidence, gone: Gone) -> str | None:
    """What the evidence lacks to say that the leader never changed and that its log lost the record by itself."""
    if evidence.log_losses is None:
        return "steps.jsonl is missing, so whether a disk lost data is not known"
    if evidence.timeline.torn or evidence.timeline.gaps:
        return "the metadata log is not known to be whole, so an election may be missing (evidence.json)"
    leader = evidence.timeline.states(gone.topic, gone.partition)[-1].leader
    if not evidence.epochs.has_log(gone.topic, gone.partition, leader):
        return f"the log of its leader, broker {leader}, is not in replicas/"
    return None
