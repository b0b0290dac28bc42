"""KIP-966, ELR invariants: no member of the ELR is in the ISR."""

from __future__ import annotations

from analysis.judge.rules.case import Case
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.findings import Finding, finding, state_row
from analysis.judge.rules.partitions.states import all_states, is_broken_by


def _check(case: Case) -> Finding:
    with_elr = [state for state in all_states(case.evidence.timeline) if state.elr]
    return finding(
        exercised=len(with_elr),
        violations=[state_row(state) for state in with_elr if is_broken_by("elr-not-in-isr", state)],
    )


RULE = Clause(
    module=__name__,
    doc=__doc__,
    kip="KIP-966",
    check=_check,
    is_shown_without_steps=True,
)
