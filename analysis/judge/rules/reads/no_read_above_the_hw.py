"""KIP-966: a consumer gets the records below the HW only.

What consumers read of a leader epoch is held against the HWs that its leader served in that epoch afterwards
(`analysis.judge.history.reads_and_hws`). The leader is asked by another client, so its answer to one client shows what
it should not have given to the other one. A HW that went back in its epoch is of another clause.
"""

from __future__ import annotations

from analysis.judge.history.reads_and_hws import FindReadsAboveHw
from analysis.judge.rules.clause import Clause, Finding, Judged, finding


def _check(judged: Judged) -> Finding:
    found = judged.record.seen(FindReadsAboveHw)
    doubt = "a clock was set" if judged.record.unsure_spans else None
    return finding(exercised=found.compared, violations=found.above, doubt=doubt)


RULE = Clause(
    kip="KIP-966",
    check=_check,
    parts=("polls", "watermarks"),
    needed="never",
    compares_times=True,
    unknown_when=(
        "a record was read early, and a clock was set. Only where the leader of an epoch was asked for its HW twice, "
        "was not restarted in that epoch, and its HW did not go back"
    ),
    example="""
        A consumer reads offset 0 at 5 s. The leader is asked at 6 s, and its HW is still 0.
        partitions: leader=1
        polls: 0=1 at=5
        watermarks: high_watermark=0 at=2; high_watermark=0 at=6
        gives: offset=0 high_watermark=0
    """,
)
