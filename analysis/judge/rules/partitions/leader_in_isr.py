"""KIP-966, Leader election: an elected leader is in the ISR from that record on.

This includes a leader elected from the ELR.
"""

from __future__ import annotations

from analysis.judge.rules.clause import Clause, Finding, Judged
from analysis.judge.rules.partitions.states import finding_on_states


def _check(judged: Judged) -> Finding:
    return finding_on_states(judged, "leader-in-isr", lambda state: state.leader >= 0)


RULE = Clause(
    kip="KIP-966",
    check=_check,
    is_shown_without_steps=True,
    example="""
        Broker 1 leads, and the ISR is 2, 3.
        partitions: leader=1; isr=2,3
        gives: leader=1 isr=2,3
    """,
)
