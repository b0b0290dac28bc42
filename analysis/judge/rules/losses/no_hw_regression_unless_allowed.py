"""KIP-966: no HW goes back after at most min ISR - 1 unclean shutdowns.

Elect "without data loss or HWM moving backward when we only have min ISR - 1 unclean
shutdowns".
"""

from __future__ import annotations

from analysis.judge.rules.clause import Clause, Finding, Judged, finding_on_causes
from analysis.judge.rules.losses import hw_regression
from analysis.reconcile.model import HwRegression
from analysis.record.whole import OF_LOSSES


def _check(judged: Judged) -> Finding:
    unknown = judged.unknown.get(hw_regression.RULE.name)
    return finding_on_causes(
        judged.blamed_of(HwRegression), exercised=int(judged.record.has("watermarks")), kind_unknown=unknown
    )


RULE = Clause(
    kip="KIP-966",
    check=_check,
    reads_timeline=False,
    parts=OF_LOSSES,
    needed="if-hw-predicted",
    allowed="every HW that went back did so as the specification allows on this release",
    unknown_when="no HW was observed, the clock was set back meanwhile, or a regression has no cause",
    example="""
        A leader served the HW 10, and 5 later under the same epoch.
        watermarks: high_watermark=10; high_watermark=5
        gives: from=10 to=5
    """,
)
