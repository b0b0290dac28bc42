"""Which keys each kind of step needs, and which it may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.model import ADMIN_KINDS, OPTIONAL_KINDS, StepKind, StepSpec

_FIELDS = msgspec.structs.fields(StepSpec)
_ANY_KIND = ("name", "trigger", "deadline_s")
_TARGET = ("target",)

_NEEDED: dict[StepKind, tuple[str, ...]] = {
    "kill": _TARGET,
    "stop": _TARGET,
    "pause": _TARGET,
    "resume": _TARGET,
    "start": _TARGET,
    "restart": _TARGET,
    "rolling": ("mode",),
    "power-loss": _TARGET,
    "wipe-disk": _TARGET,
    "fill-disk": _TARGET,
    "read-only": _TARGET,
    "fail-disk": _TARGET,
    "slow-disk": ("target", "delay", "period"),
    "mend-disk": _TARGET,
    "partition": (),
    "isolate": _TARGET,
    "flap": ("times", "period"),
    "limit-bandwidth": ("rate",),
    "heal": (),
    "reassign": ("partition",),
    "elect": ("partition", "type"),
    "set-config": ("resource", "config"),
    "set-feature": ("feature", "level"),
    "delete-topic": ("topic",),
    "unregister": _TARGET,
    "hold-request": ("target", "api"),
    "delay-request": ("target", "api", "delay"),
    "drop-request": ("target", "api"),
    "duplicate-request": ("target", "api"),
    "release": (),
    "wait": ("trigger",),
}
_OPTIONAL: dict[StepKind, tuple[str, ...]] = {
    "rolling": _TARGET,
    "partition": ("groups", "from", "to"),
    "isolate": ("from",),
    "flap": ("groups", "from", "to"),
    "limit-bandwidth": ("groups", "from", "to"),
    "reassign": ("replicas", "cancel"),
    "set-config": ("value", "delete"),
    "hold-request": ("to", "direction", "times"),
    "delay-request": ("to", "direction", "times"),
    "drop-request": ("to", "direction", "times"),
    "duplicate-request": ("to", "times"),
    "release": _TARGET,
}
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

_EITHER: dict[StepKind, tuple[str, str]] = {"reassign": ("replicas", "cancel"), "set-config": ("value", "delete")}
"""Two keys of which a step has exactly one."""

_BY_GROUPS_OR_SIDES = ("partition", "flap", "limit-bandwidth")
"""Kinds that say whom to cut from whom by groups, or by from and to."""


def keys_of(kind: StepKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keys that a step of this kind needs, and those that it may have besides."""
    needed = _NEEDED[kind]
    own = [*_OPTIONAL.get(kind, ()), *(["expect_error"] if kind in ADMIN_KINDS else [])]
    own += [*_ANY_KIND, *(["optional"] if kind in OPTIONAL_KINDS else [])]
    return needed, tuple(key for key in own if key not in needed)


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
    if step.step in _EITHER:
        yield from _either(step, where, wrong, *_EITHER[step.step])
    if step.step in _BY_GROUPS_OR_SIDES:
        yield from _sides(step, where, wrong)


def _either(step: StepSpec, where: str, wrong: Callable[[str], bool], one: str, other: str) -> Iterator[UsageError]:
    given = [key for key in (one, other) if getattr(step, key) or wrong(f"{where}.{key}")]
    if step.step == "set-config" and step.value == "":
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
