"""KIP-704, Topic Partition Leader: the ISR has one member while RECOVERING.

"the ISR size is 1 while the leader recovery state field is RECOVERING." The record that grows
the ISR therefore ends RECOVERING. A partition without a leader may have lost that one member
too (KIP-966: the ISR can be empty).
"""

from __future__ import annotations

from analysis.judge.rules.clause import Clause, Finding, Judged
from analysis.judge.rules.partitions.states import finding_on_states


def _check(judged: Judged) -> Finding:
    return finding_on_states(judged, "recovering-alone", lambda state: state.recovering)


RULE = Clause(
    kip="KIP-704",
    check=_check,
    is_shown_without_steps=True,
    example="""
        A partition is RECOVERING, and its ISR has two members.
        partitions: leader=1 isr=1; leader=-1; leader=3 isr=2,3 leader_recovery_state=1
        gives: isr=2,3
    """,
)
