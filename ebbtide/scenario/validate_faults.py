"""Validates faults: exclusive keys, no targets, nodes cut from themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from ebbtide.errors import UsageError
from ebbtide.scenario.parts import StepPart
from ebbtide.scenario.references import limit
from ebbtide.scenario.roles import Role, overlap
from ebbtide.scenario.steps.step import BaseStep
from ebbtide.scenario.triggers import tag_of
from ebbtide.scenario.words import Duration

SLOW_DISK_DELAY_S_MAX = 5.0
"""Nothing can end a process that waits for a frozen volume, and the end of a run waits so long for one to die."""

_NO_BROKERS = ("controller", "controllers")
_ONE_NODE = ("leader", "last-known-leader", "longest-log", "controller", "broker", "clients")


def validate_broker(role: Role, where: str, what: str) -> Iterator[UsageError]:
    """A role of controllers where only a broker can be meant."""
    if role.kind in _NO_BROKERS:
        yield UsageError(what, where=where, got=repr(role), allowed="a role of brokers")


def validate_either(step: StepPart, kind: type[BaseStep], where: str) -> Iterator[UsageError]:
    """Both of two keys of which the step has one, or none of them."""
    if kind.kind.either is None:
        return
    one, other = kind.kind.either
    told = [key for key in (one, other) if step.has_value(key)]
    if len(told) != 1:
        got = " and ".join(told) or None
        allowed = f"either {one}, or {other} = true"
        yield UsageError(f"{tag_of(kind)} needs one of two keys", where=f"{where}.{one}", got=got, allowed=allowed)


def validate_sides(step: StepPart, where: str) -> Iterator[UsageError]:
    """Neither groups nor two sides, both, or groups that cannot be apart."""
    told = [key for key in ("groups", "from", "to") if step.has_value(key)]
    if told not in (["groups"], ["from", "to"]):
        missing = {"from": "to", "to": "from"}.get("".join(told), "groups")
        yield UsageError(
            "say whom to cut from whom",
            where=f"{where}.{missing}",
            got=" and ".join(told) or None,
            allowed="groups = [[...], [...]], or from = [...] and to = [...]",
        )
    elif len(step.elements("groups")) == 1:
        yield UsageError("one group is cut from nobody", where=f"{where}.groups", allowed="two groups or more")
    yield from step.check(_validate_one_way, where)


def _validate_one_way(where: str, *, from_: tuple[Role, ...], to: tuple[Role, ...]) -> Iterator[UsageError]:
    yield from _validate_not_itself(from_, to, where)


def validate_isolation(where: str, *, from_: tuple[Role, ...], target: Role) -> Iterator[UsageError]:
    """A node that is cut from itself only."""
    yield from _validate_not_itself(from_, (target,), where)


def _validate_not_itself(sources: tuple[Role, ...], targets: tuple[Role, ...], where: str) -> Iterator[UsageError]:
    """A cut of one node from that very node."""
    one = sources[0] if len(sources) == len(targets) == 1 else None
    if one is not None and one == targets[0] and one.kind in _ONE_NODE:
        yield UsageError(
            "a node cannot be cut from itself", where=f"{where}.from", got=repr(one), allowed="another role"
        )


def validate_slow_delay(where: str, *, delay: Duration) -> Iterator[UsageError]:
    """A delay that is longer than a node's end may wait."""
    yield from limit(f"{where}.delay", delay.seconds, 0.01, SLOW_DISK_DELAY_S_MAX)


def validate_slowness(where: str, *, delay: Duration, period: Duration) -> Iterator[UsageError]:
    """A delay that is longer than its period."""
    if delay.seconds >= period.seconds:
        yield UsageError(
            "writes would wait for ever",
            where=f"{where}.delay",
            got=f"{delay} of every {period}",
            allowed="less than the period",
        )


def validate_groups(groups: Sequence[Sequence[Role | None] | None], where: str) -> Iterator[UsageError]:
    """Report roles of two groups that have a node in common.

    A one-way cut may have a node on both sides, as in brokers > brokers.
    """
    for (at, one), (other_at, other) in combinations(enumerate(groups), 2):
        for role, other_role in product(one or (), other or ()):
            if role is not None and other_role is not None and overlap(role, other_role):
                yield UsageError(
                    "two groups overlap: a node cannot be cut from itself",
                    where=where,
                    got=f"{role!r} in groups[{at}] and {other_role!r} in groups[{other_at}]",
                    allowed="groups with no node in common, e.g. leader(t-0) and followers(t-0)",
                )
