"""Triggers: what a step waits for, one struct for each kind.

A file says a trigger as one key: `trigger = { acked = 1000 }`, `trigger = { isr = { partition = "t-0", size = 1 } }`.
The key is the struct's tag, and says which struct it is. What stands behind it are the struct's fields, or the only
one of them (`bare`). `ebbtide.scenario.plain_values` reads and writes both forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, cast, get_args

import msgspec

from ebbtide.scenario.words import ConfigResource, Duration, PartitionName, Role, RoleOrNone


class Trigger:
    """What a step waits for; one of the structs of this module."""

    __slots__ = ()

    bare: ClassVar[str | None] = None
    """The only field, whose value stands behind the trigger's key; None: a table of all fields stands there."""

    @property
    def key(self) -> str:
        """The key of this kind of trigger in a file."""
        return tag_of(type(self))

    def replace(self, **changes: object) -> Self:
        """Return the same trigger with these fields changed."""
        return cast(Self, msgspec.structs.replace(cast(Any, self), **changes))


def tag_of(kind: type) -> str:
    """The word that says in a file that a table is of this kind."""
    return str(cast(Any, kind).__struct_config__.tag)


class _Struct(Trigger, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="on"):
    pass


class AckedTrigger(_Struct, frozen=True, kw_only=True, tag="acked"):
    """So many `records` were acked, over all producers."""

    bare = "records"
    records: int


class OfPartitions(_Struct, frozen=True, kw_only=True):
    """A trigger on partitions: on `partition`, or on every one of `partitions`."""

    partition: PartitionName | None = None
    partitions: tuple[PartitionName, ...] | None = None

    @property
    def names(self) -> tuple[PartitionName, ...]:
        """The partitions that it is about."""
        return (self.partitions or ()) if self.partition is None else (self.partition,)


class IsrTrigger(OfPartitions, frozen=True, kw_only=True, tag="isr"):
    """The ISR has `size` members, or at least `at_least`."""

    size: int | None = None
    at_least: int | None = None


class ElrTrigger(OfPartitions, frozen=True, kw_only=True, tag="elr_contains"):
    """`broker` is in the ELR; each of them, where the role stands for several."""

    broker: Role


class LeaderTrigger(OfPartitions, frozen=True, kw_only=True, tag="leader_is"):
    """`broker` leads; with `none`, the partition has no leader."""

    broker: RoleOrNone


class EpochTrigger(OfPartitions, frozen=True, kw_only=True, tag="epoch_above"):
    """The leader epoch is above `epoch`."""

    epoch: int


class OffsetTrigger(OfPartitions, frozen=True, kw_only=True, tag="hw_at_least"):
    """The HW that the leader served is at least `offset`."""

    offset: int


class ReplicasTrigger(OfPartitions, frozen=True, kw_only=True, tag="replicas"):
    """The replicas `are` these roles, in any order.

    The replicas of an unfinished reassignment count too.
    """

    are: tuple[Role, ...]


class ReassignedTrigger(OfPartitions, frozen=True, kw_only=True, tag="reassigned"):
    """No reassignment is under way: no replica is being added or removed."""


class DirectoryTrigger(OfPartitions, frozen=True, kw_only=True, tag="in_directory"):
    """The replica on `broker` is in log directory `directory`, and is not being moved."""

    broker: Role
    directory: int


class RecoveryTrigger(OfPartitions, frozen=True, kw_only=True, tag="recovery_state"):
    """The leader recovery state (KIP-704) is `state`."""

    state: Literal["recovered", "recovering"]


class ConfigTrigger(_Struct, frozen=True, kw_only=True, tag="config_is"):
    """`config` of `resource` has `value`; no value: it is not set there."""

    resource: ConfigResource
    config: str
    value: str | None = None


class BrokerTrigger(_Struct, frozen=True, kw_only=True, tag="broker_is"):
    """The newest registration event of `broker` is `state`.

    If the role names several brokers, this holds for each of them.
    """

    broker: Role
    state: Literal["registered", "fenced", "unfenced", "shutting_down", "unregistered"]


class HeldTrigger(_Struct, frozen=True, kw_only=True, tag="held"):
    """`at_least` requests or answers of `api` are held or delayed now.

    They are on connections of `node`.
    """

    node: Role
    api: str
    at_least: int = 1


class AfterTrigger(_Struct, frozen=True, kw_only=True, tag="after"):
    """So much `time` has passed since the step before."""

    bare = "time"
    time: Duration

    @property
    def seconds(self) -> float:
        """Return how many seconds the trigger waits."""
        return self.time.seconds


_Any = (
    AckedTrigger
    | IsrTrigger
    | ElrTrigger
    | LeaderTrigger
    | EpochTrigger
    | OffsetTrigger
    | ReplicasTrigger
    | ReassignedTrigger
    | RecoveryTrigger
    | DirectoryTrigger
    | ConfigTrigger
    | BrokerTrigger
    | HeldTrigger
    | AfterTrigger
)
TRIGGERS: Mapping[str, type[Trigger]] = {tag_of(kind): kind for kind in get_args(_Any)}
"""Each kind of trigger by its key, in the order in which files list them."""


def after(text: str) -> AfterTrigger:
    """The trigger that waits for this time, such as `2s`."""
    return AfterTrigger(time=Duration(text))


def trigger_text(keys: Mapping[str, object]) -> str:
    """Return the keys of a trigger as a person reads them: `acked 1000`, `isr of t-0: size 1`.

    They may come from a record, so a value may be anything. Empty without keys.
    """
    return "; ".join(_key_text(key, value) for key, value in keys.items() if value is not None)


def _key_text(key: str, value: object) -> str:
    if not isinstance(value, Mapping):
        return f"{key} {_value_text(value)}"
    of = _value_text(value.get("partition", value.get("partitions", ())))
    words = {name: one for name, one in value.items() if name not in ("partition", "partitions") and one is not None}
    rest = ", ".join(f"{name} {_value_text(one)}" for name, one in words.items())
    return f"{key} of {of}{': ' if rest else ''}{rest}" if of else f"{key}: {rest}"


def _value_text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
