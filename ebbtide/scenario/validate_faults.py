"""Validates faults: exclusive keys, no targets, nodes cut from themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from ebbtide.errors import UsageError
from ebbtide.scenario.parts import Parts, has_value
from ebbtide.scenario.references import limit
from ebbtide.scenario.roles import Role, overlap
from ebbtide.scenario.steps.disk import SlowDiskStep
from ebbtide.scenario.steps.network import BetweenStep
from ebbtide.scenario.steps.step import StepSpec

SLOW_DISK_DELAY_S_MAX = 5.0
"""Nothing can end a process that waits for a frozen volume, and the end of a run waits so long for one to die."""

_NO_BROKERS = ("controller", "controllers")
_ONE_NODE = ("leader", "last-known-leader", "controller", "broker", "clients")


def validate_broker(role: Role, where: str, what: str) -> Iterator[UsageError]:
    """A role of controllers where only a broker can be meant."""
    if role.kind in _NO_BROKERS:
        yield UsageError(what, where=where, got=repr(role), allowed="a role of brokers")


def validate_either(_parts: Parts, step: StepSpec, where: str) -> Iterator[UsageError]:
    """Both of two keys of which the step has one, or none of them."""
    if step.kind.either is None:
        return
    one, other = step.kind.either
    told = [key for key in (one, other) if has_value(step, key)]
    if len(told) != 1:
        got = " and ".join(told) or None
        allowed = f"either {one}, or {other} = true"
        yield UsageError(f"{step.step} needs one of two keys", where=f"{where}.{one}", got=got, allowed=allowed)


def validate_sides(step: BetweenStep, where: str) -> Iterator[UsageError]:
    """Neither groups nor two sides, both, or groups that cannot be apart."""
    told = [key for key, name in (("groups", "groups"), ("from", "from_"), ("to", "to")) if has_value(step, name)]
    if told not in (["groups"], ["from", "to"]):
        missing = {"from": "to", "to": "from"}.get("".join(told), "groups")
        yield UsageError(
            "say whom to cut from whom",
            where=f"{where}.{missing}",
            got=" and ".join(told) or None,
            allowed="groups = [[...], [...]], or from = [...] and to = [...]",
        )
    elif len(step.groups) == 1:
        yield UsageError("one group is cut from nobody", where=f"{where}.groups", allowed="two groups or more")
    yield from validate_not_itself(step.from_, step.to, where)


def validate_not_itself(sources: tuple[Role, ...], targets: tuple[Role, ...], where: str) -> Iterator[UsageError]:
    """A cut of one node from that very node."""
    one = sources[0] if len(sources) == len(targets) == 1 else None
    if one is not None and one == targets[0] and one.kind in _ONE_NODE:
        yield UsageError(
            "a node cannot be cut from itself", where=f"{where}.from", got=repr(one), allowed="another role"
        )


def validate_slowness(step: SlowDiskStep, where: str) -> Iterator[UsageError]:
    """A delay that is longer than its period, or than a node's end may wait."""
    yield from limit(f"{where}.delay", step.delay.seconds, 0.01, SLOW_DISK_DELAY_S_MAX)
    if step.delay.seconds >= step.period.seconds:
        yield UsageError(
            "writes would wait for ever",
            where=f"{where}.delay",
            got=f"{step.delay} of every {step.period}",
            allowed="less than the period",
        )


def validate_groups(groups: Sequence[tuple[Role, ...]], where: str) -> Iterator[UsageError]:
    """Report roles of two groups that have a node in common.

    A one-way cut may have a node on both sides, as in brokers > brokers.
    """
    for (at, one), (other_at, other) in combinations(enumerate(groups), 2):
        for role, other_role in product(one, other):
            if overlap(role, other_role):
                yield UsageError(
                    "two groups overlap: a node cannot be cut from itself",
                    where=where,
                    got=f"{role!r} in groups[{at}] and {other_role!r} in groups[{other_at}]",
                    allowed="groups with no node in common, e.g. leader(t-0) and followers(t-0)",
                )
