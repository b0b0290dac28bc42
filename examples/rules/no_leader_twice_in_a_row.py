"""Ours: no election gives a partition the leader that it had before.

A broker that leads again at once did not fail over, so the fault of the run missed its target.
"""

from __future__ import annotations

from itertools import pairwise

from analysis.judge.rules.clause import Clause, Finding, Judged, finding, state_row


def _check(judged: Judged) -> Finding:
    """Look at each two states of a partition in a row that have a leader."""
    elections, violations = 0, []
    for states in judged.record.timeline.partitions.values():
        for before, after in pairwise(one for one in states if one.leader >= 0):
            if after.leader_epoch > before.leader_epoch:
                elections += 1
                if after.leader == before.leader:
                    violations.append(state_row(after))
    return finding(exercised=elections, violations=violations)


RULE = Clause(kip="ours", check=_check)
