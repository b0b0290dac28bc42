"""Every kind of step by name, and the sets of kinds that the rest of Ebbtide asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ebbtide.scenario.steps.admin import ADMIN, AdminKind
from ebbtide.scenario.steps.disk import DISK, DiskKind
from ebbtide.scenario.steps.kind import Kind
from ebbtide.scenario.steps.network import NETWORK, NetworkKind
from ebbtide.scenario.steps.process import PROCESS, ProcessKind
from ebbtide.scenario.steps.waiting import WAITING, WaitingKind
from ebbtide.scenario.steps.wire import WIRE, WireKind

StepKind = Literal[ProcessKind, DiskKind, NetworkKind, AdminKind, WireKind, WaitingKind]

_FAMILIES: tuple[Mapping[Any, Kind], ...] = (PROCESS, DISK, NETWORK, ADMIN, WIRE, WAITING)
KINDS: Mapping[StepKind, Kind] = {kind: one for family in _FAMILIES for kind, one in family.items()}
"""Everything that is true of each kind of step."""

HEALED_BY: Mapping[str, StepKind] = {kind: one.healed_by for kind, one in KINDS.items() if one.healed_by is not None}
"""The step that ends each fault's effect. Those that end by themselves (restart, rolling, flap) are not listed."""
HEALERS: frozenset[StepKind] = frozenset(HEALED_BY.values())
"""Steps that end what others broke."""

ADMIN_KINDS: frozenset[StepKind] = frozenset(ADMIN)
"""Steps that ask Kafka for something: they touch the cluster only, and nothing undoes them."""
WIRE_KINDS: frozenset[StepKind] = frozenset(WIRE) - HEALERS
"""Steps that arm a rule at a wire proxy; they take effect when something comes by that it is about."""
CUT_KINDS: frozenset[StepKind] = frozenset(NETWORK) - HEALERS
"""Steps that cut or slow connections between groups of nodes."""
OPTIONAL_KINDS: frozenset[StepKind] = frozenset({*WAITING, *ADMIN, *WIRE})
"""Steps that may be optional: without effect they leave the nodes as they were, whereas of a fault that has no proof
nobody knows what it did."""

NETWORK_FAULTS: frozenset[StepKind] = frozenset(kind for kind, one in KINDS.items() if one.healed_by == "heal")
"""Cuts and limits that last."""
DISK_TROUBLES: frozenset[StepKind] = frozenset(kind for kind, one in KINDS.items() if one.volume is not None)
"""Faults under which a running node may end by itself; what is then needed is a mend-disk and a start."""
TAKES_DOWN: frozenset[StepKind] = frozenset(kind for kind, one in KINDS.items() if one.takes_down)
"""Faults that end the node's process."""
LOSES_RECORDS: frozenset[StepKind] = frozenset(kind for kind, one in KINDS.items() if one.loses is not None)
"""Faults after which a node's logs may lack records that they had."""
LOSES_POWER: frozenset[str] = frozenset(
    kind for kind, one in KINDS.items() if one.takes_down and one.loses == "unflushed"
)
"""Faults after which a node has what it had fsynced, and nothing else for sure."""
NEEDS_A_SOUND_VOLUME = DISK_TROUBLES | LOSES_RECORDS
"""Faults of a volume: one that is in trouble already is mended first."""


def needing(check: str) -> tuple[StepKind, ...]:
    """The kinds that need what this check of `ebbtide doctor` tries."""
    return tuple(sorted(kind for kind, one in KINDS.items() if check in one.host))
