"""The table of permission: which cause allows an election whose winner lacked a record.

`permits` reads the table. Nothing else allows or forbids a loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from analysis.causes.intervals import (
    CONTRADICTED,
    DISK_TOOK_IT,
    JOINED_WITHOUT_IT,
    LACKS_IT,
    STATES,
    UNRECORDED_LOSS,
)
from ebbtide.record.verdict import Cause

Kind = Literal["any", "recovery", "last-known-leader", "unclean", "clean"]
Condition = Literal[
    "never committed",
    "unclean election allowed",
    "no live candidate passed over",
    "beyond the tolerance of KIP-966",
    "within the tolerance of KIP-966",
    "every replica's disk took it",
    "the only ISR member",
    "no ELR",
    "broker epochs not compared",
]


class PermissionRow(NamedTuple):
    """An election of this kind, under these conditions, excuses that its winner lacked a record for these reasons."""

    cause: Cause
    kind: Kind
    when: tuple[Condition, ...]
    reasons: int


_ANY_LOSS = LACKS_IT & ~CONTRADICTED
_RECORDED_LOSS = _ANY_LOSS & ~UNRECORDED_LOSS
_ALLOWED: tuple[Condition, ...] = ("unclean election allowed", "no live candidate passed over")

TABLE = (
    PermissionRow("uncommitted-at-failover", "any", ("never committed",), LACKS_IT),
    PermissionRow("unclean-recovery", "recovery", (), _ANY_LOSS),
    PermissionRow("last-known-leader", "last-known-leader", ("beyond the tolerance of KIP-966",), _RECORDED_LOSS),
    PermissionRow("unexplained", "last-known-leader", ("within the tolerance of KIP-966",), _RECORDED_LOSS),
    PermissionRow("unclean-election", "unclean", _ALLOWED, _ANY_LOSS),
    PermissionRow("stale-isr-join", "clean", ("broker epochs not compared",), JOINED_WITHOUT_IT),
    PermissionRow("beyond-tolerance", "any", ("every replica's disk took it",), DISK_TOOK_IT),
    PermissionRow("last-replica-standing", "clean", ("the only ISR member", "no ELR"), DISK_TOOK_IT),
)
"""In the order of precedence: for each reason, the first row that fits counts.

The row *unexplained* is for what Kafka does by its rules and KIP-966 promises not to happen.
"""

NEEDS: Mapping[Condition | Literal["steps", "gap", "kind", "log"], str] = {
    "never committed": "whether the record was committed",
    "unclean election allowed": "whether an unclean election was allowed (configs.parquet, steps.jsonl)",
    "no live candidate passed over": "which brokers could lead (brokers.parquet)",
    "beyond the tolerance of KIP-966": "how many disks lost the record, and the min ISR when it was committed",
    "within the tolerance of KIP-966": "how many disks lost the record, and the min ISR when it was committed",
    "every replica's disk took it": "which disks lost the record",
    "the only ISR member": "who was in the ISR",
    "no ELR": "whether the ELR was on",
    "broker epochs not compared": "whether KIP-903 was in force",
    "steps": "which disks lost records",
    "kind": "whether the leader registered just then (brokers.parquet)",
    "log": "what the log of its leader has above the HW (replicas/)",
    "gap": "the missing records of the metadata log",
}
"""What would decide each condition."""


class Permits(NamedTuple):
    """What allows a winner to lack a record: causes, and conditions that would have to be known.

    Nothing in either: the protocol does not allow it.
    """

    causes: frozenset[Cause] = frozenset()
    needs: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether the protocol may allow it."""
        return bool(self.causes or self.needs)

    @property
    def may_excuse(self) -> bool:
        """Whether the protocol may allow it without breaking what KIP-966 promises."""
        return bool(self) and "unexplained" not in self.causes


def permits(kind: Kind, reasons: int, facts: Mapping[Condition, bool | None]) -> Permits:
    """Read the table for an election whose winner lacked a record for one of these reasons.

    Each reason is looked up alone. A condition that is not in `facts` is not met; None: it is not known. A row that
    perhaps fits counts only where no later row surely does.
    """
    causes, needs = set[Cause](), set[str]()
    for reason in (one for one in STATES if one & reasons):
        perhaps = set[str]()
        for row in TABLE:
            if row.kind not in ("any", kind) or not row.reasons & reason:
                continue
            met = [facts.get(one, False) for one in row.when]
            if all(met):
                causes.add(row.cause)
                break
            if False not in met:
                perhaps |= {NEEDS[one] for one, is_met in zip(row.when, met, strict=True) if is_met is None}
        else:
            needs |= perhaps or ({NEEDS["steps"]} if reason == UNRECORDED_LOSS else set())
    return Permits(frozenset(causes), frozenset(needs))
