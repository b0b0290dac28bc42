"""KIP-966, KIP-704, KIP-903: the protocol allows each record on a partition.

The protocol is that of the controller's release, at the feature levels of that moment. The clause is unknown
for a release that the model does not know, and where a record depends on missing evidence.
"""

from __future__ import annotations

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding, state_row, unknown_finding
from analysis.judge.trace.results import UnexplainedTransition


def _check(judged: Judged) -> Finding:
    trace = judged.trace
    if trace.refused is not None:
        return unknown_finding(trace.refused)
    violations = [_row(one) for one in trace.unexplained if not one.undecided]
    undecided = [_row(one) for one in trace.unexplained if one.undecided]
    return finding(exercised=len(trace.explained), violations=violations, unknown=undecided)


def _row(one: UnexplainedTransition) -> Row:
    before = state_row(one.before) if one.before is not None else None
    nearest = [{"action": near.action, "by": near.by, "instead": near.instead} for near in one.nearest]
    row = state_row(one.after, why=one.why, before=before, nearest_allowed=nearest)
    return {**row, "metadata_offset": one.metadata_offset}


RULE = Clause(
    kip="KIP-966/704/903",
    check=_check,
    needed="never",
    compares_times=True,
    unknown_when=(
        "the model does not know the release; or a transition depends on missing evidence ([transitions](#transitions))"
    ),
    example="""
        The leader changes to a broker that is in neither ISR nor ELR, and the ISR stays.
        partitions: leader=1; isr=1,2; leader=3
        gives: leader=3
    """,
)
