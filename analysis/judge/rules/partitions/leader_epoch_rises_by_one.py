"""KIP-631: the leader epoch never goes back and rises by one with each new leader.

No change raises it by more than one.
"""

from __future__ import annotations

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding, state_row


def _check(judged: Judged) -> Finding:
    pairs = list(judged.record.timeline.pairs())
    violations: list[Row] = []
    for before, after in pairs:
        rise = after.leader_epoch - before.leader_epoch
        steps = after.partition_epoch - before.partition_epoch
        moved = after.leader != before.leader
        if rise < 0 or (moved and rise == 0) or (steps >= 1 and rise > steps):
            violations.append(state_row(after, leader_before=before.leader, leader_epoch_before=before.leader_epoch))
    return finding(exercised=len(pairs), violations=violations)


RULE = Clause(
    kip="KIP-631",
    check=_check,
    is_shown_without_steps=True,
    example="""
        The leader epoch goes from 0 to 2.
        partitions: leader=1; leader=2 leader_epoch=2
        gives: leader_epoch=2
    """,
)
