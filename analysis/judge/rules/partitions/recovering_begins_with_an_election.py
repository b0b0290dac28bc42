"""KIP-704, KRaft Controller: only an unclean election itself sets RECOVERING."""

from __future__ import annotations

from analysis.judge.rules.clause import Clause, Finding, Judged, finding, state_row


def _check(judged: Judged) -> Finding:
    began = [
        (before, after)
        for before, after in judged.record.timeline.pairs()
        if after.recovering and not before.recovering
    ]
    wrong = [after for before, after in began if after.leader < 0 or after.leader_epoch == before.leader_epoch]
    return finding(exercised=len(began), violations=[state_row(state) for state in wrong])


RULE = Clause(
    kip="KIP-704",
    check=_check,
    is_shown_without_steps=True,
    example="""
        A partition becomes RECOVERING under the leader that it had.
        partitions: leader=1 isr=1; leader_recovery_state=1
        gives: leader_recovery_state=1
    """,
)
