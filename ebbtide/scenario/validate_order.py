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

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.parts import StepPart
from ebbtide.scenario.roles import Role
from ebbtide.scenario.steps.kind import Kind
from ebbtide.scenario.steps.step import BaseStep, StepSpec, target_of
from ebbtide.scenario.steps.table import (
    CUT_KINDS,
    DISK_TROUBLES,
    ENDED_BY,
    KINDS,
    NEEDS_A_SOUND_VOLUME,
    NETWORK_FAULTS,
    STEP_TYPES,
    TAKES_DOWN,
    StepKind,
)
from ebbtide.scenario.triggers import tag_of

_NOT_BROKERS = ("controller", "controllers")
_FIXED = ("broker", "controllers")
"""Roles that stand for the same nodes at each step. The active controller is another one once it was killed."""


class _TargetKey(NamedTuple):
    """A role of a certain node, or `argument` at a certain step."""

    kind: str
    argument: str | None = None


_CLIENTS = _TargetKey("clients")
_UNREAD = _TargetKey("unread")


class _Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault in force.

    `who` is its certain target: a broker's role, or the step that first resolved it. `spares_first`: it is certainly or
    possibly a fault of another log directory than the first, without which a broker can run.
    """

    kind: StepKind
    who: _TargetKey
    spares_first: bool = False


class _Standing(msgspec.Struct, frozen=True):
    """The faults before a step: those certainly in force, and those that may be.

    What a step does of which a part could not be read is not certain.
    """

    certain: tuple[_Fault, ...] = ()
    possible: tuple[_Fault, ...] = ()

    def after(
        self, kind: type[BaseStep], who: _TargetKey | None, *, all_nodes: bool, spares_first: bool = False
    ) -> _Standing:
        """The faults after a step of this kind on `who`, or on `all_nodes`."""
        word = tag_of(kind)

        def stays(fault: _Fault) -> bool:
            ends = ENDED_BY[fault.kind] == word and (all_nodes or who == fault.who)
            # A process that ends is not paused any more.
            return not ends and not (KINDS[fault.kind].pauses and kind.kind.takes_down and fault.who == who)

        kept = tuple(filter(stays, self.certain))
        if word in ENDED_BY and (who is not None or all_nodes):
            whom = who or (_CLIENTS if word in NETWORK_FAULTS else _UNREAD)
            kept = (*kept, _Fault(kind=word, who=whom, spares_first=spares_first))
        return _Standing(kept, self.possible)

    def after_one_of(self, kinds: Iterable[type[BaseStep]], who: _TargetKey | None) -> _Standing:
        """The faults after a step of one of these kinds, which may have ended any fault that they end."""
        words = {tag_of(kind): kind.kind for kind in kinds}

        def stays(fault: _Fault) -> bool:
            ends = ENDED_BY[fault.kind] in words
            return not ends and not (KINDS[fault.kind].pauses and any(of.takes_down for of in words.values()))

        begun = [word for word in words if word in ENDED_BY]
        new = tuple(_Fault(kind=word, who=_CLIENTS if word in NETWORK_FAULTS else who or _UNREAD) for word in begun)
        ended = tuple(fault for fault in self.certain if not stays(fault))
        return _Standing(tuple(filter(stays, self.certain)), (*self.possible, *ended, *new))


def validate_order(steps: Sequence[StepPart], *, one_controller: bool) -> Iterator[UsageError]:
    """Report the steps that the order of the schedule makes impossible.

    `one_controller`: there is certainly no more than one, so that `controller` is the same node at each step.
    """
    for one in _walk(steps, one_controller=one_controller):
        yield from _impossible(one.kind, one.target, one.who, one.standing, one.where, sure=one.is_sure)


def validate_starts(steps: Sequence[StepPart], *, one_controller: bool) -> Iterator[UsageError]:
    """Report starts of nodes that cannot write to a volume; `one_controller` as in `validate_order`.

    A run ends with an error there. Its record has such a schedule, and can be judged as far as it goes.
    """
    for one in _walk(steps, one_controller=one_controller):
        yield from _start_without_writes(one.kind, one.target, one.who, one.standing, one.where, sure=one.is_sure)


class _PlacedStep(NamedTuple):
    """A step of a known kind in the schedule, `who` it is on, and the faults before it.

    `is_sure`: its target, or that it has none, was read.
    """

    kind: type[BaseStep]
    target: Role | None
    who: _TargetKey | None
    standing: _Standing
    where: str
    is_sure: bool


def _walk(steps: Sequence[StepPart], *, one_controller: bool) -> Iterator[_PlacedStep]:
    fixed = (*_FIXED, "controller") if one_controller else _FIXED
    standing = _Standing()
    named: dict[str, _TargetKey] = {}
    for index, step in enumerate(steps):
        role: Role | None = step.get("target")
        who = _target_key(role, index, named, fixed)
        unread = "target" in step.unread
        if unread:
            who = _TargetKey(_UNREAD.kind, f"of step {index}")
        if step.type is not None:
            yield _PlacedStep(step.type, role, who, standing, f"steps[{index}]", is_sure=not unread)
        if step.name is not None and who is not None:
            named[step.name] = who
        if step.type is None or unread:
            standing = standing.after_one_of(step.kinds, who)
        else:
            spares_first = "directory" in step.unread or step.get("directory") not in (None, 1)
            standing = standing.after(step.type, who, all_nodes=role is None, spares_first=spares_first)


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
    kind = STEP_TYPES[step.step]
    yield from _impossible(kind, target_of(step), who, _Standing(faults), "step")
    yield from _start_without_writes(kind, target_of(step), who, _Standing(faults), "step", sure=True)


def _node(node: int) -> _TargetKey:
    """A node for certain, whatever it is."""
    return _TargetKey("broker", str(node))


def _impossible(
    kind: type[BaseStep],
    target: Role | None,
    who: _TargetKey | None,
    standing: _Standing,
    where: str,
    *,
    sure: bool = True,
) -> Iterator[UsageError]:
    """Report why a step of this kind on `who` is impossible; `sure`: its target, or that it has none, was read."""
    word, of = tag_of(kind), kind.kind
    healed = {fault for fault, ended_by in ENDED_BY.items() if ended_by == word}
    if of.starts:
        healed |= DISK_TROUBLES
    candidates = [fault for fault in (*standing.certain, *standing.possible) if fault.kind in healed]
    if of.nothing_to_end is not None and target is None and sure and not candidates:
        nothing, allowed = of.nothing_to_end
        yield UsageError(nothing, where=f"{where}.step", got=word, allowed=allowed)
    elif healed and who is not None and sure and not any(_may_be(who, fault.who) for fault in candidates):
        after = ", ".join(sorted(healed))
        yield UsageError(
            f"nothing to {word}: no earlier step left this node so",
            where=f"{where}.target",
            got=repr(target),
            allowed=f"a node after {after}",
        )
    on_node = [KINDS[fault.kind] for fault in standing.certain if fault.who == who]
    if of.needs_process and any(one.takes_down for one in on_node):
        yield UsageError(
            f"a {word} of a node that is down", where=f"{where}.target", got=repr(target), allowed="start it first"
        )
    if of.needs_awake and any(one.pauses for one in on_node):
        yield UsageError(
            f"a {word} of a node that is paused",
            where=f"{where}.target",
            got=repr(target),
            allowed="resume it first, or kill it",
        )
    if of.takes_down and any(_took_as_much(of, one) for one in on_node):
        yield UsageError(
            f"a {word} of a volume with nothing left to lose",
            where=f"{where}.target",
            got=repr(target),
            allowed="start it first",
        )
    if word in NEEDS_A_SOUND_VOLUME and any(one.volume is not None for one in on_node):
        yield UsageError(
            f"a {word} of a volume that is in trouble already",
            where=f"{where}.target",
            got=repr(target),
            allowed="mend-disk first",
        )
    if word in CUT_KINDS and of.ends_itself and any(fault.kind in NETWORK_FAULTS for fault in standing.certain):
        yield UsageError(
            f"a {word} heals every cut, also the one that is in force",
            where=f"{where}.step",
            got=word,
            allowed="heal first",
        )


def _start_without_writes(
    kind: type[BaseStep],
    target: Role | None,
    who: _TargetKey | None,
    standing: _Standing,
    where: str,
    *,
    sure: bool,
) -> Iterator[UsageError]:
    """Report a start of a node whose volume is dead: it writes there before it is up.

    A broker that lost another log directory than the first starts without it (KIP-858).

    Without a target, or with all brokers, the step starts each broker.
    """
    if not (kind.kind.starts or kind.kind.starts_again):
        return
    dead = [fault.who for fault in standing.certain if KINDS[fault.kind].volume == "dead" and not fault.spares_first]
    is_each_broker = sure and (target is None or (who is not None and who.kind == "brokers"))
    if who in dead or (is_each_broker and any(one.kind not in _NOT_BROKERS for one in dead)):
        yield UsageError(
            f"a {tag_of(kind)} of a node with a volume that takes no writes",
            where=f"{where}.target" if target is not None else f"{where}.step",
            got=tag_of(kind) if target is None else repr(target),
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
    if _UNREAD.kind in (one.kind, other.kind):
        return True
    if one.kind == other.kind == "broker":
        return one == other
    return (one.kind in _NOT_BROKERS) == (other.kind in _NOT_BROKERS)
