"""KIP-631: the leader epoch never goes back and rises by one with each new leader.

No change raises it by more than one.
"""

from __future__ import annotations

from analysis.judge.rules.clause import Cases, Clause, Finding, Judged, state_row


def _check(judged: Judged) -> Finding:
    cases = Cases()
    for before, after in judged.record.timeline.pairs():
        rise = after.leader_epoch - before.leader_epoch
        steps = after.partition_epoch - before.partition_epoch
        moved = after.leader != before.leader
        is_wrong = rise < 0 or (moved and rise == 0) or (steps >= 1 and rise > steps)
        about = {"leader_before": before.leader, "leader_epoch_before": before.leader_epoch}
        cases.add(state_row(after, **about) if is_wrong else None)
    return cases.finding()


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
