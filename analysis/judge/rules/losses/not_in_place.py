"""How items of vanished and of diverged records are grouped: by what decides their cause."""

from __future__ import annotations

from analysis.reconcile.model import GroupsOfKind, VanishedRange

GROUPS = GroupsOfKind(
    into=VanishedRange,
    by=("leader_epoch", "committed"),
    figures=("min(offset) AS first_offset", "max(offset) AS last_offset", "min(at_ns) AS read_ns"),
    where="NOT coalesce(also_lost, false)",
)
