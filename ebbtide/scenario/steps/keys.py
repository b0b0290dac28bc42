"""The keys that each kind of step needs, and the keys it may have.

The fields of its struct decide both.
"""

from __future__ import annotations

import msgspec

from ebbtide.scenario.steps.table import OPTIONAL_KINDS, STEP_TYPES, StepKind

COMMON_KEYS = ("name", "trigger", "deadline_s", "optional")
"""The keys of every kind of step."""

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
    "rate": "8kbit to 100mbit, e.g. '256kbit'",
    "trigger": "a trigger, e.g. 'acked = 1000'",
    "deadline_s": "how long to wait at most, in seconds",
    "name": "a name, for step(NAME) in later roles",
    "expect_error": "the refusal that is wanted, e.g. 'ELECTION_NOT_NEEDED'",
    "optional": "no harm where it cannot fire or has no effect",
}
"""What stands for each key."""


def keys_of(kind: StepKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys that a step of this kind needs, and the keys that it may have."""
    fields = msgspec.structs.fields(STEP_TYPES[kind])
    own = [one for one in fields if one.encode_name not in COMMON_KEYS]
    common = [one for one in fields if one.encode_name in COMMON_KEYS]
    by_order = [one for one in (*own, *common) if one.encode_name != "optional" or kind in OPTIONAL_KINDS]
    needed = tuple(one.encode_name for one in by_order if one.required)
    return needed, tuple(one.encode_name for one in by_order if not one.required)


def types_of(kind: StepKind) -> dict[str, str]:
    """The type of each key of a kind, in words."""
    return {one.encode_name: str(one.type) for one in msgspec.structs.fields(STEP_TYPES[kind])}
