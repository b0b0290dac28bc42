"""Which keys each kind of step needs, and which it may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.model import StepSpec
from ebbtide.scenario.steps.table import KINDS, OPTIONAL_KINDS, StepKind

_FIELDS = msgspec.structs.fields(StepSpec)
_ANY_KIND = ("name", "trigger", "deadline_s")
SHOWN = {
    "target": "a role, e.g. 'leader(t-0)'",
    "groups": "lists of roles to be cut from each other",
    "from": "roles, e.g. 'controllers'",
    "to": "roles, e.g. 'followers(t-0)'",
    "partition": "a partition, e.g. 't-0'",
    "replicas": "roles, the preferred leader first",
    "cancel": "end the reassignment instead",
    "mode": "restart, kill or power-loss",
    "times": "how often, e.g. 5",
    "period": "how long one turn takes, e.g. '2s'",
    "type": "preferred or unclean",
    "resource": "'topic:NAME', 'broker:ROLE' or 'cluster'",
    "config": "a config's name, e.g. 'min.insync.replicas'",
    "value": "what to set it to",
    "delete": "take it back to what it is by default",
    "feature": "a feature's name",
    "level": "a whole number, 0 or more",
    "topic": "a topic's name",
    "api": "a Kafka API, e.g. 'AlterPartition'",
    "direction": "request or response",
    "delay": "how long, e.g. '500ms'",
    "rate": "a rate, e.g. '256kbit'",
    "trigger": "a trigger, e.g. 'acked = 1000'",
    "deadline_s": "how long to wait at most, in seconds",
    "name": "a name, for step(NAME) in later roles",
    "expect_error": "the refusal that is wanted, e.g. 'ELECTION_NOT_NEEDED'",
    "optional": "no harm where it cannot fire or has no effect",
}
"""What stands for each key."""


def keys_of(kind: StepKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keys that a step of this kind needs, and those that it may have besides."""
    one = KINDS[kind]
    own = [*one.takes, *_ANY_KIND, *(["optional"] if kind in OPTIONAL_KINDS else [])]
    return one.needs, tuple(key for key in own if key not in one.needs)


def keys_of_kind(step: StepSpec, where: str, wrong: Callable[[str], bool]) -> Iterator[UsageError]:
    """Keys that a step of this kind lacks, and keys that it has no use for."""
    needed, possible = keys_of(step.step)
    known = {"step", *needed, *possible}
    for field in _FIELDS:
        key, value = field.encode_name, getattr(step, field.name)
        given = (value is not None and value != () and value is not False) or wrong(f"{where}.{key}")
        if key in needed and not given:
            yield UsageError(f"no {key}", where=f"{where}.{key}", allowed=SHOWN[key])
        elif given and key not in known:
            allowed = ", ".join(sorted(known - {"step"}))
            yield UsageError(f"{step.step} has no {key}", where=f"{where}.{key}", allowed=allowed)
    either = KINDS[step.step].either
    if either is not None:
        yield from _either(step, where, wrong, *either)
    if "groups" in possible:
        yield from _sides(step, where, wrong)


def _either(step: StepSpec, where: str, wrong: Callable[[str], bool], one: str, other: str) -> Iterator[UsageError]:
    given = [key for key in (one, other) if getattr(step, key) or wrong(f"{where}.{key}")]
    if one == "value" and step.value == "":
        given.insert(0, one)
    if len(given) != 1:
        got = " and ".join(given) or None
        allowed = f"either {one}, or {other} = true"
        yield UsageError(f"{step.step} needs one of two keys", where=f"{where}.{one}", got=got, allowed=allowed)


def _sides(step: StepSpec, where: str, wrong: Callable[[str], bool]) -> Iterator[UsageError]:
    sides = {"groups": step.groups, "from": step.from_, "to": step.to}
    given = [key for key, roles in sides.items() if roles or wrong(f"{where}.{key}")]
    if given not in (["groups"], ["from", "to"]):
        missing = {"from": "to", "to": "from"}.get("".join(given), "groups")
        yield UsageError(
            "say whom to cut from whom",
            where=f"{where}.{missing}",
            got=" and ".join(given) or None,
            allowed="groups = [[...], [...]], or from = [...] and to = [...]",
        )
    elif len(step.groups) == 1:
        yield UsageError("one group is cut from nobody", where=f"{where}.groups", allowed="two groups or more")
