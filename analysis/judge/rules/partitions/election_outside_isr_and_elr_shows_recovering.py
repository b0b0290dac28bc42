"""KIP-704: a leader elected from outside the ISR is RECOVERING.

KIP-966 counts the ELR among the candidates. So no leader comes from outside ISR and ELR unless
the record that elects it says RECOVERING. The last known leader comes from outside.
"""

from __future__ import annotations

from analysis.judge.rules.clause import NOT_IN_EVIDENCE, Clause, Finding, Judged, election_row, finding


def _check(judged: Judged) -> Finding:
    outside = [one for one in judged.record.elections if one.is_from_outside]
    hidden = [one for one in outside if not one.after.recovering]
    return finding(
        exercised=len(outside),
        violations=[election_row(one) for one in hidden if not one.after.lacks_record_since(one.before)],
        unknown=[
            election_row(one) | {"why": NOT_IN_EVIDENCE} for one in hidden if one.after.lacks_record_since(one.before)
        ],
    )


RULE = Clause(
    kip="KIP-704",
    check=_check,
    is_shown_without_steps=True,
    example="""
        Broker 2 is elected from outside the ISR, and the partition is not RECOVERING.
        partitions: leader=1; leader=-1 isr=1; leader=2 isr=2
        gives: leader=2
    """,
)
