"""KIP-704, Topic Partition Leader: the ISR has one member while RECOVERING.

"the ISR size is 1 while the leader recovery state field is RECOVERING." The record that grows
the ISR therefore ends RECOVERING. A partition without a leader may have lost that one member
too (KIP-966: the ISR can be empty).
"""

from __future__ import annotations

from analysis.judge.rules.case import Case
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.findings import Finding, finding, state_row
from analysis.judge.rules.partitions.states import all_states, is_broken_by


def _check(case: Case) -> Finding:
    recovering = [state for state in all_states(case.evidence.timeline) if state.recovering]
    return finding(
        exercised=len(recovering),
        violations=[state_row(state) for state in recovering if is_broken_by("recovering-alone", state)],
    )


RULE = Clause(
    module=__name__,
    doc=__doc__,
    kip="KIP-704",
    check=_check,
    is_shown_without_steps=True,
)
