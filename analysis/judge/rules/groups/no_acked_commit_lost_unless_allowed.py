"""KIP-966, for `__consumer_offsets`: a commit that was acked is a committed record.

A group gets back what was acked for it, and never an older commit than one that was served. Every
exception needs an election of its coordinator's partition that the protocol permits (the causes).
"""

from __future__ import annotations

from analysis.judge.rules.case import Case
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.findings import Finding
from analysis.judge.rules.on_causes import finding_on_causes
from analysis.record.whole import OF_LOSSES

_KINDS = ("commit-lost", "commit-back")


def _check(case: Case) -> Finding:
    settled = [one for one in case.commits if one.what.settled]
    whys = {case.unknown_kinds[kind] for kind in _KINDS if kind in case.unknown_kinds}
    if case.unchecked_commits is not None:
        whys.add(case.unchecked_commits)
    return finding_on_causes(settled, exercised=case.acked_commits, kind_unknown="; ".join(sorted(whys)) or None)


RULE = Clause(
    module=__name__,
    doc=__doc__,
    kip="KIP-966",
    check=_check,
    applies=lambda case: case.record.has("commits"),
    reads_timeline=False,
    parts=(*OF_LOSSES, "commits"),
    allowed="every lost commit of a group is one that the specification allows on this release",
    unknown_when=(
        "the cause of a lost [commit](group-offsets.md) is not known, or lost commits are unknown. Only "
        "in records with `commits/`"
    ),
)
