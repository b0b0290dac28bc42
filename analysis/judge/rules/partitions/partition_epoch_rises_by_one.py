"""KIP-631: every change of a partition raises its partition epoch by one.

So the log has no fork. A jump by more means that the evidence lacks a record: unknown. An epoch
that goes back, or that stays while the state changes, is a violation.
"""

from __future__ import annotations

from analysis.judge.rules.clause import NOT_IN_EVIDENCE, Clause, Finding, Judged, finding, state_row


def _check(judged: Judged) -> Finding:
    pairs = list(judged.record.timeline.pairs())
    violations = [
        state_row(after, partition_epoch_before=before.partition_epoch)
        for before, after in pairs
        if after.partition_epoch <= before.partition_epoch
    ]
    gaps = [
        state_row(after, partition_epoch_before=before.partition_epoch, why=NOT_IN_EVIDENCE)
        for before, after in pairs
        if after.lacks_record_since(before)
    ]
    return finding(exercised=len(pairs), violations=violations, unknown=gaps)


RULE = Clause(
    kip="KIP-631",
    check=_check,
    is_shown_without_steps=True,
    unknown_when="a record between two states is not in the evidence",
    example="""
        The ISR changes, and the partition epoch stays at 0.
        partitions: leader=1; isr=1,2 partition_epoch=0
        gives: partition_epoch=0 isr=1,2
    """,
)
