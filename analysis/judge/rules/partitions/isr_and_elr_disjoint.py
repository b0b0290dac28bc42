"""KIP-966, ELR invariants: no member of the ELR is in the ISR."""

from __future__ import annotations

from analysis.judge.rules.clause import Clause, Finding, Judged
from analysis.judge.rules.partitions.states import finding_on_states


def _check(judged: Judged) -> Finding:
    return finding_on_states(judged, "elr-not-in-isr", lambda state: state.elr)


RULE = Clause(
    kip="KIP-966",
    check=_check,
    is_shown_without_steps=True,
    example="""
        Broker 2 is in the ISR and in the ELR.
        partitions: leader=1; isr=1,2 elr=2,3
        gives: isr=1,2 elr=2,3
    """,
)
