"""One row of each table that the metadata log yields; the columns are those of `ebbtide.record.tables`.

Plain records without pyarrow, because the runner keeps them as the live state of the cluster.
"""

from __future__ import annotations

import msgspec


class PartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a partition from `metadata_offset` on. `leader` -1: none."""

    metadata_offset: int
    metadata_epoch: int
    at_ns: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader_recovery_state: int


class BrokerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a broker's registration: registered fenced unfenced shutting_down unregistered."""

    metadata_offset: int
    at_ns: int
    broker: int
    broker_epoch: int
    incarnation: str | None
    event: str


class ConfigRow(msgspec.Struct, frozen=True, kw_only=True):
    """One config or feature level set, or deleted (`value` null).

    `resource` is `topic:NAME`, `broker:ID`, `cluster` or `feature:NAME`; for a feature `name` is `level`.
    """

    metadata_offset: int
    at_ns: int
    resource: str
    name: str
    value: str | None


Row = PartitionRow | BrokerRow | ConfigRow
