"""Every kind of step by name, and the sets of kinds that Ebbtide needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from ebbtide.scenario.steps.admin import AdminStep
from ebbtide.scenario.steps.clients import ClientsStep
from ebbtide.scenario.steps.clock import ClockStep
from ebbtide.scenario.steps.disk import DiskStep
from ebbtide.scenario.steps.network import NetworkStep
from ebbtide.scenario.steps.process import ProcessStep
from ebbtide.scenario.steps.recovery import RecoveryStep
from ebbtide.scenario.steps.step import BaseStep, Kind, WaitingStep, struct_fields
from ebbtide.scenario.steps.wire import WireStep
from ebbtide.scenario.triggers import tag_of

StepKind = str
"""The word of a kind, such as `power-loss`: the tag of its struct."""

AnyStep = (
    ProcessStep | ClientsStep | DiskStep | ClockStep | NetworkStep | AdminStep | RecoveryStep | WireStep | WaitingStep
)
"""The tagged union of all kinds."""

STEP_TYPES: Mapping[StepKind, type[BaseStep]] = {tag_of(one): one for one in get_args(AnyStep)}
"""The struct of each kind."""
KINDS: Mapping[StepKind, Kind] = {kind: one.kind for kind, one in STEP_TYPES.items()}
"""What is true of each kind of step, besides its fields."""

STARTERS: frozenset[StepKind] = frozenset(kind for kind, one in KINDS.items() if one.starts)
"""Steps after which the node's process runs."""
HEALED_BY: Mapping[str, StepKind] = {kind: one.healed_by for kind, one in KINDS.items() if one.healed_by is not None}
"""The step that ends each fault's effect. Those that end by themselves (restart, rolling, flap) are not listed."""
ENDED_BY: Mapping[StepKind, StepKind] = {
    **HEALED_BY,
    **{kind: starter for kind, one in KINDS.items() if one.may_leave_down for starter in STARTERS},
}
"""The step that ends each kind's effect, also that of kinds after which a node may be down."""
HEALERS: frozenset[StepKind] = frozenset(HEALED_BY.values())
"""Steps that end what others broke."""


def _kinds(fits: Callable[[Kind], bool]) -> frozenset[StepKind]:
    return frozenset(kind for kind, one in KINDS.items() if fits(one))


ADMIN_KINDS = _kinds(lambda one: one.family in ("admin", "recovery"))
"""Steps that ask Kafka for something: they touch the cluster only, and nothing undoes them."""
WIRE_KINDS = _kinds(lambda one: one.family == "wire") - HEALERS
"""Steps that arm a rule at a wire proxy; they take effect when something comes by that it is about."""
CUT_KINDS = _kinds(lambda one: one.family == "network") - HEALERS
"""Steps that cut or slow connections between groups of nodes."""
CLOCK_KINDS = _kinds(lambda one: one.family == "clock")
"""Steps that set the clocks of nodes: they need an agent in the nodes' processes."""
OPTIONAL_KINDS = _kinds(lambda one: one.family in ("waiting", "admin", "recovery", "wire"))
"""Steps that may be optional: without effect they leave the nodes as they were, whereas of a fault that has no proof
nobody knows what it did."""

NETWORK_FAULTS = _kinds(lambda one: one.healed_by == "heal")
"""Cuts and limits that last."""
DISK_TROUBLES = _kinds(lambda one: one.volume is not None)
"""Faults under which a running node may end by itself; what is then needed is a mend-disk and a start."""
TAKES_DOWN = _kinds(lambda one: one.takes_down)
"""Faults that end the node's process."""
LOSES_RECORDS = _kinds(lambda one: one.loses is not None)
"""Faults after which a node's logs may lack records that they had."""
LOSES_POWER = _kinds(lambda one: one.takes_down and one.loses == "unflushed")
"""Faults after which a node has what it had fsynced, and nothing else for sure."""
NEEDS_A_SOUND_VOLUME = DISK_TROUBLES | LOSES_RECORDS
"""Faults of a volume: one that is in trouble already is mended first."""


def kinds_needing(check: str) -> tuple[StepKind, ...]:
    """The kinds that need what this check of `ebbtide doctor` tries."""
    return tuple(sorted(_kinds(lambda one: check in one.host)))


def help_of_kind(kind: StepKind) -> str:
    """Return the command that explains a kind of step, for errors about a step of this kind.

    For an unknown kind, it returns the command that lists the kinds.
    """
    if kind not in KINDS:
        return "ebbtide cluster fault --help    (lists the kinds of steps)"
    return f"ebbtide cluster fault {kind} --help    (its options, and what proves that it took effect)"


COMMON_KEYS = ("name", "trigger", "deadline_s", "optional")
"""The keys of every kind of step."""


def _words_of(kind: type[BaseStep]) -> Iterator[tuple[str, str]]:
    """What stands for each key of a kind: the words of the struct that declares it, else those of its type."""
    own = {key: words for base in reversed(kind.__mro__) for key, words in vars(base).get("shown", {}).items()}
    for field in struct_fields(kind):
        yield field.encode_name, own.get(field.encode_name) or _words_of_type(field.type)


def _words_of_type(type_: Any) -> str:
    if get_origin(type_) in (Union, UnionType):
        type_ = get_args(type_)[0]
    if get_origin(type_) is Literal:
        *most, last = get_args(type_)
        return f"{', '.join(most)} or {last}" if most else str(last)
    return str(type_.shown)


SHOWN: Mapping[StepKind, Mapping[str, str]] = {word: dict(_words_of(kind)) for word, kind in STEP_TYPES.items()}
"""What stands for each key of a kind, in messages, helps and docs."""


def keys_of(kind: StepKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys that a step of this kind needs, and the keys that it may have."""
    fields = struct_fields(STEP_TYPES[kind])
    own = [one for one in fields if one.encode_name not in COMMON_KEYS]
    common = [one for one in fields if one.encode_name in COMMON_KEYS]
    by_order = [one for one in (*own, *common) if one.encode_name != "optional" or kind in OPTIONAL_KINDS]
    needed = tuple(one.encode_name for one in by_order if one.required)
    return needed, tuple(one.encode_name for one in by_order if not one.required)


def types_of(kind: StepKind) -> dict[str, str]:
    """The type of each key of a kind, in words."""
    return {one.encode_name: str(one.type) for one in struct_fields(STEP_TYPES[kind])}
