"""Checks the order of a schedule's steps, as far as the file alone allows.

A role resolves when its step fires, so the file seldom says which node it means. An error is a step that is wrong for
every node that the role can mean:

- a heal when nothing is cut;
- a start of a node that nothing can have stopped;
- a kill of a node that is certainly down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.steps.kind import Kind
from ebbtide.scenario.steps.step import StepSpec, target_of
from ebbtide.scenario.steps.table import (
    CUT_KINDS,
    DISK_TROUBLES,
    HEALED_BY,
    KINDS,
    NEEDS_A_SOUND_VOLUME,
    NETWORK_FAULTS,
    TAKES_DOWN,
    StepKind,
)

_NOT_BROKERS = ("controller", "controllers")
_FIXED = ("broker", "controllers")
"""Roles that stand for the same nodes at each step. The active controller is another one once it was killed."""


class _TargetKey(NamedTuple):
    """A role of a certain node, or `argument` at a certain step."""

    kind: str
    argument: str | None = None


_CLIENTS = _TargetKey("clients")


class _Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault in force.

    `who` is its certain target: a broker's role, or the step that first resolved it.
    """

    kind: StepKind
    who: _TargetKey


def validate_order(steps: Sequence[StepSpec], *, one_controller: bool) -> Iterator[UsageError]:
    """Report the steps that the order of the schedule makes impossible.

    `one_controller`: there is certainly no more than one, so that `controller` is the same node at each step.
    """
    fixed = (*_FIXED, "controller") if one_controller else _FIXED
    open_: list[_Fault] = []
    named: dict[str, _TargetKey] = {}
    for index, step in enumerate(steps):
        who = _target_key(step, index, named, fixed)
        yield from _impossible(step, who, open_, f"steps[{index}]")
        if step.name is not None and who is not None:
            named[step.name] = who
        open_ = [fault for fault in open_ if not _ends_fault(step, who, fault) and not _cuts_short(step, who, fault)]
        # A node whose volume was mended may have ended before.
        leaves_broken = step.step in HEALED_BY or step.kind.may_leave_down
        if leaves_broken and (who is not None or step.step in NETWORK_FAULTS):
            open_.append(_Fault(kind=step.step, who=who or _CLIENTS))


def impossible_now(step: StepSpec, node: int | None, in_force: Iterable[tuple[StepKind, int]]) -> Iterator[UsageError]:
    """Yield an error for each reason why `step` on `node` is impossible now.

    Each fault in force comes with the node that it is on.
    """
    open_ = [_Fault(kind=kind, who=_node(on)) for kind, on in in_force]
    if step.step == "start":
        # Trouble with its volume may have ended a node, and need not have.
        open_ = [fault for fault in open_ if fault.kind in TAKES_DOWN]
    yield from _impossible(step, None if node is None else _node(node), open_, "step")


def _node(node: int) -> _TargetKey:
    """A node for certain, whatever it is."""
    return _TargetKey("broker", str(node))


def _impossible(step: StepSpec, who: _TargetKey | None, open_: Sequence[_Fault], where: str) -> Iterator[UsageError]:
    kind, target = step.kind, target_of(step)
    healed: set[str] = {fault for fault, healer in HEALED_BY.items() if healer == step.step}
    if step.step == "start":
        healed |= DISK_TROUBLES | {one for one, of in KINDS.items() if of.may_leave_down}
    candidates = [fault for fault in open_ if fault.kind in healed]
    if kind.nothing_to_end is not None and target is None and not candidates:
        nothing, allowed = kind.nothing_to_end
        yield UsageError(nothing, where=f"{where}.step", got=step.step, allowed=allowed)
    elif healed and who is not None and not any(_may_be(who, fault.who) for fault in candidates):
        after = ", ".join(sorted(healed))
        yield UsageError(
            f"nothing to {step.step}: no earlier step left this node so",
            where=f"{where}.target",
            got=repr(target),
            allowed=f"a node after {after}",
        )
    if kind.needs_process and any(fault.kind in TAKES_DOWN and fault.who == who for fault in open_):
        yield UsageError(
            f"a {step.step} of a node that is down",
            where=f"{where}.target",
            got=repr(target),
            allowed="start it first",
        )
    if kind.needs_awake and any(fault.kind == "pause" and fault.who == who for fault in open_):
        yield UsageError(
            f"a {step.step} of a node that is paused",
            where=f"{where}.target",
            got=repr(target),
            allowed="resume it first, or kill it",
        )
    if kind.takes_down and any(_took_as_much(kind, KINDS[fault.kind]) and fault.who == who for fault in open_):
        yield UsageError(
            f"a {step.step} of a volume with nothing left to lose",
            where=f"{where}.target",
            got=repr(target),
            allowed="start it first",
        )
    if step.step in NEEDS_A_SOUND_VOLUME and any(fault.kind in DISK_TROUBLES and fault.who == who for fault in open_):
        yield UsageError(
            f"a {step.step} of a volume that is in trouble already",
            where=f"{where}.target",
            got=repr(target),
            allowed="mend-disk first",
        )
    if step.step in CUT_KINDS and kind.ends_itself and any(fault.kind in NETWORK_FAULTS for fault in open_):
        yield UsageError(
            f"a {step.step} heals every cut, also the one that is in force",
            where=f"{where}.step",
            got=step.step,
            allowed="heal first",
        )


def _target_key(step: StepSpec, index: int, named: dict[str, _TargetKey], fixed: Collection[str]) -> _TargetKey | None:
    """Return the certain target of a role at this step.

    A role of a `fixed` kind is itself. Any other is the node it resolved to at this step, and
    `step(NAME)` is the same node.
    """
    role = target_of(step)
    if role is None:
        return None
    if role.kind == "step":
        return named.get(str(role.argument))
    if role.kind in fixed:
        return _TargetKey(role.kind, role.argument)
    return _TargetKey(role.kind, f"{role.argument} at step {index}")


def _cuts_short(step: StepSpec, who: _TargetKey | None, fault: _Fault) -> bool:
    """A process that ends is not paused any more."""
    return fault.kind == "pause" and step.step in TAKES_DOWN and fault.who == who


def _ends_fault(step: StepSpec, who: _TargetKey | None, fault: _Fault) -> bool:
    if HEALED_BY.get(fault.kind, "start") != step.step:
        return False
    return target_of(step) is None or who == fault.who


def _took_as_much(kind: Kind, earlier: Kind) -> bool:
    """Whether an earlier step already made the node lose as much as this one does.

    The node has not run again since.
    """
    return kind.loses is not None and earlier.takes_down and earlier.loses in (kind.loses, "all")


def _may_be(one: _TargetKey, other: _TargetKey) -> bool:
    if one.kind == other.kind == "broker":
        return one == other
    return (one.kind in _NOT_BROKERS) == (other.kind in _NOT_BROKERS)
