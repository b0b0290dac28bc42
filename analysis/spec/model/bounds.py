"""Bounds a search: the configuration and the budgets, checked before it begins."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from analysis.spec.model.words import MAX_RECORDS
from ebbtide.errors import UsageError
from ebbtide.shown_text import plural

AdminKind = Literal[
    "reassign",
    "move",
    "raise-min-isr",
    "lower-min-isr",
    "feature",
    "unregister",
    "first-partition",
    "preferred",
    "unclean",
    "designate",
]
ADMIN_KINDS: tuple[AdminKind, ...] = get_args(AdminKind)
Acks = Literal["all", "1", "mixed"]
Recovery = Literal["balanced", "proactive", "manual"]

BUDGETS = ("power_losses", "kills", "disks", "disks_outside", "stops", "admin")
"""The fields of `Bounds` that count what may happen."""

MAX_BROKERS = 7
"""The most brokers of a configuration: RF 6 with min ISR 4, and a spare.

It is one more than a scenario may have, whose brokers are processes. A reassignment can move to the
spare.
"""
MAX_BUDGET = 9


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration and what may happen to it.

    `brokers` counts spares too. Budgets:
    - `records` appended,
    - `power_losses`: the unflushed log is lost,
    - `kills`: only the process ends,
    - `disks` replaced while a broker is down; `disks_outside`: only while it is in neither ISR nor
      ELR, as a careful operator would,
    - `stops`: clean,
    - `admin` requests of the kinds in `admin_kinds`: `reassign` to any set of at most RF brokers,
      `move` only to sets of RF.

    `unclean_recovery` and `recovery_manager` are KIP-966's unclean.leader.election.enable and
    unclean.recovery.manager.enabled, for variants that have the recovery.
    `late_configs`: the leader's broker may lag behind the controller in min.insync.replicas.
    `unclean`: unclean.leader.election.enable=true.
    `steps` bounds the depth, None: none. Sessions may expire without a budget: a network may cut
    any running broker off at any time. Without `cuts` no running broker is cut off, and none leaves
    the ISR because it is slow. `in_turn`: a broker goes down only while all replicas are in the ISR.
    """

    rf: int = 3
    min_isr: int = 2
    brokers: int = 0
    records: int = 1
    power_losses: int = 0
    kills: int = 0
    disks: int = 0
    disks_outside: int = 0
    stops: int = 0
    admin: int = 0
    admin_kinds: tuple[AdminKind, ...] = ()
    late_configs: bool = False
    unclean: bool = False
    cuts: bool = True
    in_turn: bool = False
    unclean_recovery: Recovery = "balanced"
    recovery_manager: bool = True
    acks: Acks = "all"
    steps: int | None = None

    @property
    def size(self) -> int:
        """The number of brokers, spares included."""
        return max(self.brokers, self.rf)


def check_bounds(bounds: Bounds, *, is_sized: bool = False) -> None:
    """Raise `UsageError` for the first bound that cannot be searched; `is_sized`: somebody gave the brokers."""
    _within("replication factor", bounds.rf, 1, MAX_BROKERS, "rf")
    _within("min.insync.replicas", bounds.min_isr, 1, bounds.rf, "min_isr")
    if is_sized or bounds.brokers:
        _within("number of brokers", bounds.brokers, bounds.rf, MAX_BROKERS, "brokers")
    _within("number of records", bounds.records, 1, MAX_RECORDS, "records")
    for name in BUDGETS:
        _within(f"budget of {name.replace('_', ' ')}", getattr(bounds, name), 0, MAX_BUDGET, name)
    if bounds.steps is not None:
        _within("number of steps", bounds.steps, 1, 1000, "steps")
    if bounds.admin_kinds and not bounds.admin:
        raise UsageError(
            "kinds of administrative requests without a budget for any",
            where="--bounds admin-kinds",
            got=", ".join(bounds.admin_kinds),
            next="admin=1 allows one request of these kinds",
        )


def bounds_in_words(bounds: Bounds, *, recovers: bool) -> str:
    """Return all bounds of a search in words.

    `recovers`: the variant has KIP-966's unclean recovery. "Holds" is true only within these bounds.
    """
    parts = [plural(bounds.size, "broker"), f"{plural(bounds.records, 'record')} with acks={bounds.acks}"]
    allowed = [f"{name.replace('_', ' ')} {budget}" for name in BUDGETS if (budget := getattr(bounds, name))]
    parts += allowed or ["no fault (--bounds power-losses=1 allows one, and so on)"]
    if bounds.admin:
        parts.append(f"of the kinds {', '.join(bounds.admin_kinds)}")
    if bounds.late_configs:
        parts.append("configs may arrive late")
    if bounds.unclean:
        parts.append("unclean elections on")
    if not bounds.cuts:
        parts.append("no running broker is cut off")
    if bounds.in_turn:
        parts.append("one broker after the other")
    if recovers:
        parts.append(f"unclean recovery {bounds.unclean_recovery}")
        if not bounds.recovery_manager:
            parts[-1] = f"no recovery manager, strategy {bounds.unclean_recovery}"
    if bounds.steps is not None:
        parts.append(f"at most {plural(bounds.steps, 'step')}")
    return ", ".join(parts)


def _within(what: str, got: int, low: int, high: int, name: str) -> None:
    if not low <= got <= high:
        raise UsageError(
            f"the {what} is out of bounds",
            where=f"--bounds {name.replace('_', '-')}",
            got=str(got),
            allowed=str(low) if low == high else f"{low} to {high}",
        )
