"""KIP-966, Leader election: an elected leader is in the ISR from that record on.

This includes a leader elected from the ELR.
"""

from __future__ import annotations

from analysis.judge.rules.case import Case
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.findings import Finding, finding, state_row
from analysis.judge.rules.partitions.states import all_states, is_broken_by


def _check(case: Case) -> Finding:
    led = [state for state in all_states(case.evidence.timeline) if state.leader >= 0]
    return finding(
        exercised=len(led), violations=[state_row(state) for state in led if is_broken_by("leader-in-isr", state)]
    )


RULE = Clause(
    module=__name__,
    doc=__doc__,
    kip="KIP-966",
    check=_check,
    is_shown_without_steps=True,
)
