"""KIP-966, Motivation: a committed record survives min ISR - 1 unclean shutdowns.

Every committed loss needs an election that the protocol permits (the causes). The clause is
unknown without a final read, or where evidence is missing to attribute a loss. Vanished records
(`vanished`) were committed, whether or not a producer received an answer.
"""

from __future__ import annotations

from analysis.judge.rules.case import Case
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.findings import Finding
from analysis.judge.rules.on_causes import finding_on_causes
from analysis.record.whole import OF_LOSSES


def _check(case: Case) -> Finding:
    committed = [one for one in case.losses if one.committed]
    unknown = case.unknown_kinds.get("lost")
    return finding_on_causes([*committed, *case.vanished], exercised=case.acked, kind_unknown=unknown)


RULE = Clause(
    module=__name__,
    doc=__doc__,
    kip="KIP-966",
    check=_check,
    reads_timeline=False,
    parts=OF_LOSSES,
    allowed="every committed loss is one that the specification allows on this release",
    unknown_when=(
        "there is no final read, it begins above an acked record, or a loss or a [missing "
        "record](causes.md#missing-but-not-lost) has no cause"
    ),
)
