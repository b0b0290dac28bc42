"""Checks the order of a schedule's steps, as far as the file alone allows.

A role resolves when its step fires, so the file seldom says which node it means. An error is a step that is wrong for
every node that the role can mean:

- a heal when nothing is cut;
- a start of a node that nothing can have stopped;
- a start, restart, rolling or upgrade of a node whose volume takes no writes (`validate_starts`), unless it is that of
  a further log directory;
- a kill of a node that is certainly down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.step import Kind, StepSpec, target_of
from ebbtide.scenario.steps.table import (
    CUT_KINDS,
    DISK_TROUBLES,
    ENDED_BY,
    KINDS,
    NEEDS_A_SOUND_VOLUME,
    NETWORK_FAULTS,
    TAKES_DOWN,
    StepKind,
)
from ebbtide.scenario.words import Role

_NOT_BROKERS = ("controller", "controllers")
_FIXED = ("broker", "controllers")
"""Roles that stand for the same nodes at each step. The active controller is another one once it was killed."""


class _TargetKey(NamedTuple):
    """A role of a certain node, or `argument` at a certain step."""

    kind: str
    argument: str | None = None


_CLIENTS = _TargetKey("clients")
_ALL = _TargetKey("all")


class _Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault in force.

    `who` is its certain target: a broker's role, or the step that first resolved it. `spares_first`: it is certainly or
    possibly a fault of another log directory than the first, without which a broker can run.
    """

    kind: StepKind
    who: _TargetKey
    spares_first: bool = False


_Standing = tuple[_Fault, ...]
"""The faults in force before a step."""


def _after(
    standing: _Standing, step: StepSpec, who: _TargetKey | None, *, all_nodes: bool, spares_first: bool
) -> _Standing:
    """The faults after a step on `who`, or on `all_nodes`."""

    def stays(fault: _Fault) -> bool:
        ends = ENDED_BY[fault.kind] == step.step and (all_nodes or who == fault.who)
        # A process that ends is not paused any more.
        return not ends and not (KINDS[fault.kind].pauses and step.kind.takes_down and fault.who == who)

    kept = tuple(filter(stays, standing))
    if step.step in ENDED_BY and (who is not None or all_nodes):
        whom = who or (_CLIENTS if step.step in NETWORK_FAULTS else _ALL)
        kept = (*kept, _Fault(kind=step.step, who=whom, spares_first=spares_first))
    return kept


def validate_order(scenario: Scenario) -> Iterator[UsageError]:
    """Report the steps that the order of the schedule makes impossible."""
    for one in _walk(scenario):
        yield from _impossible(one.step, one.who, one.standing, one.where)


def validate_starts(scenario: Scenario) -> Iterator[UsageError]:
    """Report starts of nodes that cannot write to a volume.

    A run ends with an error there. Its record has such a schedule, and can be judged as far as it goes.
    """
    for one in _walk(scenario):
        yield from _start_without_writes(one.step, one.who, one.standing, one.where)


class _PlacedStep(NamedTuple):
    """A step of the schedule, `who` it is on, and the faults before it."""

    step: StepSpec
    who: _TargetKey | None
    standing: _Standing
    where: str


def _walk(scenario: Scenario) -> Iterator[_PlacedStep]:
    # Where there is one controller, `controller` is the same node at each step.
    fixed = (*_FIXED, "controller") if scenario.cluster.controllers == 1 else _FIXED
    standing: _Standing = ()
    named: dict[str, _TargetKey] = {}
    for index, step in enumerate(scenario.steps):
        role = target_of(step)
        who = _target_key(role, index, named, fixed)
        yield _PlacedStep(step, who, standing, f"steps[{index}]")
        if step.name is not None and who is not None:
            named[step.name] = who
        spares_first = getattr(step, "directory", None) not in (None, 1)
        standing = _after(standing, step, who, all_nodes=role is None, spares_first=spares_first)


class FaultNow(NamedTuple):
    """A fault in force on a node of a cluster that runs; `spares_first`: the node's first log directory is sound."""

    kind: StepKind
    node: int
    spares_first: bool = False


def impossible_now(step: StepSpec, node: int | None, in_force: Iterable[FaultNow]) -> Iterator[UsageError]:
    """Yield an error for each reason why `step` on `node` is impossible now."""
    faults = tuple(_Fault(kind=one.kind, who=_node(one.node), spares_first=one.spares_first) for one in in_force)
    if step.kind.starts:
        # Trouble with its volume may have ended a node, and need not have.
        faults = tuple(fault for fault in faults if fault.kind in TAKES_DOWN)
    who = None if node is None else _node(node)
    yield from _impossible(step, who, faults, "step")
    yield from _start_without_writes(step, who, faults, "step")


def _node(node: int) -> _TargetKey:
    """A node for certain, whatever it is."""
    return _TargetKey("broker", str(node))


def _impossible(step: StepSpec, who: _TargetKey | None, standing: _Standing, where: str) -> Iterator[UsageError]:
    """Report why a step on `who` is impossible."""
    word, of, target = step.step, step.kind, target_of(step)
    on_target = partial(UsageError, where=f"{where}.target", got=repr(target))
    healed = {fault for fault, ended_by in ENDED_BY.items() if ended_by == word}
    if of.starts:
        healed |= DISK_TROUBLES
    candidates = [fault for fault in standing if fault.kind in healed]
    if of.nothing_to_end is not None and target is None and not candidates:
        nothing, allowed = of.nothing_to_end
        yield UsageError(nothing, where=f"{where}.step", got=word, allowed=allowed)
    elif healed and who is not None and not any(_may_be(who, fault.who) for fault in candidates):
        after = ", ".join(sorted(healed))
        yield on_target(f"nothing to {word}: no earlier step left this node so", allowed=f"a node after {after}")
    on_node = [KINDS[fault.kind] for fault in standing if fault.who == who]
    if of.needs_process and any(one.takes_down for one in on_node):
        yield on_target(f"a {word} of a node that is down", allowed="start it first")
    if of.needs_awake and any(one.pauses for one in on_node):
        yield on_target(f"a {word} of a node that is paused", allowed="resume it first, or kill it")
    if of.takes_down and any(_took_as_much(of, one) for one in on_node):
        yield on_target(f"a {word} of a volume with nothing left to lose", allowed="start it first")
    if word in NEEDS_A_SOUND_VOLUME and any(one.volume is not None for one in on_node):
        yield on_target(f"a {word} of a volume that is in trouble already", allowed="mend-disk first")
    if word in CUT_KINDS and of.ends_itself and any(fault.kind in NETWORK_FAULTS for fault in standing):
        yield UsageError(
            f"a {word} heals every cut, also the one that is in force",
            where=f"{where}.step",
            got=word,
            allowed="heal first",
        )


def _start_without_writes(
    step: StepSpec, who: _TargetKey | None, standing: _Standing, where: str
) -> Iterator[UsageError]:
    """Report a start of a node whose volume is dead: it writes there before it is up.

    A broker that lost another log directory than the first starts without it (KIP-858).

    Without a target, or with all brokers, the step starts each broker.
    """
    if not (step.kind.starts or step.kind.starts_again):
        return
    target = target_of(step)
    dead = [fault.who for fault in standing if KINDS[fault.kind].volume == "dead" and not fault.spares_first]
    is_each_broker = target is None or (who is not None and who.kind == "brokers")
    if who in dead or (is_each_broker and any(one.kind not in _NOT_BROKERS for one in dead)):
        yield UsageError(
            f"a {step.step} of a node with a volume that takes no writes",
            where=f"{where}.target" if target is not None else f"{where}.step",
            got=step.step if target is None else repr(target),
            allowed="mend-disk first",
        )


def _target_key(
    role: Role | None, index: int, named: Mapping[str, _TargetKey], fixed: Collection[str]
) -> _TargetKey | None:
    """Return the certain target of a role at this step.

    A role of a `fixed` kind is itself. Any other is the node it resolved to at this step, and
    `step(NAME)` is the same node.
    """
    if role is None:
        return None
    if role.kind == "step":
        return named.get(str(role.argument))
    if role.kind in fixed or role.controller is not None:
        return _TargetKey(role.kind, role.argument)
    return _TargetKey(role.kind, f"{role.argument} at step {index}")


def _took_as_much(kind: Kind, earlier: Kind) -> bool:
    """Whether an earlier step already made the node lose as much as this one does.

    The node has not run again since.
    """
    return kind.loses is not None and earlier.takes_down and earlier.loses in (kind.loses, "all")


def _may_be(one: _TargetKey, other: _TargetKey) -> bool:
    if _ALL.kind in (one.kind, other.kind):
        return True
    if one.kind == other.kind == "broker":
        return one == other
    return (one.kind in _NOT_BROKERS) == (other.kind in _NOT_BROKERS)
