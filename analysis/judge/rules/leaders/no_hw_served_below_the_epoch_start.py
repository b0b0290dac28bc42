"""KIP-207: a leader serves no offset while its HW is below the start of its leader epoch.

Until its followers have fetched from it, a new leader may know an older HW than the leader before it had served. So it
answers ListOffsets with OFFSET_NOT_AVAILABLE. What it served is held against the logs, which have the start of its
epoch (`analysis.judge.history.epoch_starts`), whoever was elected and however.
"""

from __future__ import annotations

from analysis.judge.history.epoch_starts import FindHwsBelowStart
from analysis.judge.rules.clause import Clause, Finding, Judged, finding


def _check(judged: Judged) -> Finding:
    record, found = judged.record, judged.record.seen(FindHwsBelowStart)
    doubt = record.why_metadata_may_be_undone if record.log_losses else None
    return finding(exercised=found.compared, violations=found.below, doubt=doubt)


RULE = Clause(
    kip="KIP-207",
    check=_check,
    scans=(FindHwsBelowStart,),
    reads_timeline=False,
    parts=("watermarks", "replicas"),
    needed="never",
    is_shown_without_steps=True,
    unknown_when=(
        "`watermarks/` or `replicas/` is not as the run left it, or a HW is below the start and a controller lost its "
        "log. Only where the leader of an epoch was asked for its HW twice, and the logs have the last record before "
        "that epoch"
    ),
    example="""
        Epoch 1 begins at offset 2 in the log, behind a record of epoch 0. Its leader serves the HW 2, and then 1.
        partitions: leader=1; at=5 leader=2
        replicas: broker=2 0=1 1=2; broker=2 leader_epoch=1 2=3
        watermarks: broker=2 leader_epoch=1 high_watermark=2 at=10; broker=2 leader_epoch=1 high_watermark=1 at=11
        gives: epoch_start=2 high_watermark=1
    """,
)
