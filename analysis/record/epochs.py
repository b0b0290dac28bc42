"""Finds where each leader epoch's log began: what a leader held when elected.

A leader appends from its log end offset on, and never truncates while it leads. So the first offset
written under an epoch (its start) says what the leader of that epoch held: an offset at or above
the start was not in its log, an offset below was. Three sources:

- replicas/, the logs after the run. The first row of an epoch in a replica's log is the epoch's
  start if an older epoch, or offset 0, is right before it; otherwise it is only an upper bound.
- watermarks/, source list_offsets. A leader answers OFFSET_NOT_AVAILABLE while its HW is below the
  start of its epoch. So a HW (or log end offset) that it did serve is an upper bound of the start.
  But the leader reads the HW before it checks whether the HW lags, so an answer may hold a HW from
  before (docs/findings/stale-latest-offset.md). Only an answer to a question asked after its first
  answer under that epoch is a bound: the HW no longer lagged by then.

- polls/. A record that a consumer read under an epoch is at or above the epoch's start.

An epoch without any of them has left no trace. The tables grow with the run, so they are read as a
stream and folded into one row an epoch and replica; memory does not grow with the number of
records.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analysis.record.files import RecordFiles
from analysis.record.timeline import TopicPartition
from ebbtide.record.tables import TABLES

_FOLD_AT_ROWS = 100_000


class ReplicaEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one leader epoch in one replica's log: first and last offset."""

    broker: int
    topic: str
    partition: int
    leader_epoch: int
    first_offset: int
    last_offset: int


class EpochTrace(msgspec.Struct, frozen=True, kw_only=True):
    """Where an epoch began: at `start`, or no later than `start` when not `exact`."""

    start: int
    exact: bool


class Epochs(msgspec.Struct, frozen=True, kw_only=True):
    """The traces of every epoch of every partition."""

    traces: dict[tuple[str, int, int], EpochTrace] = {}
    replicas: tuple[ReplicaEpoch, ...] = ()

    def has_held(self, topic: str, partition: int, epoch: int, offset: int) -> bool | None:
        """Return whether the leader of `epoch` had a record at `offset` when elected.

        None: no trace says.
        """
        trace = self.traces.get((topic, partition, epoch))
        if trace is None:
            return None
        if trace.start <= offset:
            return False
        return True if trace.exact else None

    def covers(self, topic: str, partition: int, broker: int, epoch: int, offset: int) -> bool:
        """Return whether the log of `broker` after the run has `epoch` at `offset`."""
        return any(
            (one.topic, one.partition, one.broker, one.leader_epoch) == (topic, partition, broker, epoch)
            and one.first_offset <= offset <= one.last_offset
            for one in self.replicas
        )

    def has_log(self, topic: str, partition: int, broker: int) -> bool:
        """Return whether the log of `broker` after the run has any record."""
        return any((one.topic, one.partition, one.broker) == (topic, partition, broker) for one in self.replicas)

    def starts(self, topic: str, partition: int) -> list[int]:
        """Return every epoch start of the partition, sorted.

        Between two starts, what a leader held has one answer.
        """
        return sorted({trace.start for key, trace in self.traces.items() if key[:2] == (topic, partition)})


def load_epochs(record: RecordFiles) -> Epochs:
    """Fold replicas/ and watermarks/ of a record into traces.

    Raises `UsageError` when a file is damaged.
    """
    replicas = tuple(
        msgspec.convert(row, ReplicaEpoch)
        for row in _fold(
            record,
            "replicas",
            ["broker", "topic", "partition", "leader_epoch"],
            {"offset": ("first_offset", "last_offset")},
        )
    )
    # The first epoch begins at 0, so that its blocks of polls need not be read.
    later = pc.field("leader_epoch") > 0
    read = _fold(record, "polls", ["topic", "partition", "leader_epoch"], {"offset": ("read_min", "read_max")}, later)
    return Epochs(traces=_traces(replicas, [*_reliably_served(record), *read]), replicas=replicas)


def _reliably_served(record: RecordFiles) -> list[dict[str, object]]:
    """Return the lowest offset that each epoch's leader served reliably.

    Reliable answers are to requests that were sent after the leader had answered another request.
    """
    keys = ["topic", "partition", "leader_epoch"]
    where = (pc.field("source") == "list_offsets") & pc.field("leader_epoch").is_valid()
    answered = _fold(record, "watermarks", keys, {"at_ns": ("first_ns", "last_ns")}, where)
    if not answered:
        return []
    types = pa.schema([*(TABLES["watermarks"].field(key) for key in keys), ("first_ns", pa.int64())])
    first = pa.Table.from_pylist([{name: row[name] for name in types.names} for row in answered], schema=types)
    return _fold(
        record,
        "watermarks",
        keys,
        {"high_watermark": ("hw_min", "hw_max"), "log_end_offset": ("leo_min", "leo_max")},
        where,
        ("asked_ns", lambda rows: rows.join(first, keys).filter(pc.field("asked_ns") > pc.field("first_ns"))),
    )


def _traces(
    replicas: tuple[ReplicaEpoch, ...], answered: list[dict[str, object]]
) -> dict[tuple[str, int, int], EpochTrace]:
    logs: dict[tuple[int, TopicPartition], list[ReplicaEpoch]] = {}
    for one in replicas:
        logs.setdefault((one.broker, (one.topic, one.partition)), []).append(one)
    traces: dict[tuple[str, int, int], EpochTrace] = {}
    for log in logs.values():
        log.sort(key=lambda one: one.first_offset)
        end = 0
        for one in log:
            trace = EpochTrace(start=one.first_offset, exact=one.first_offset == end)
            key = (one.topic, one.partition, one.leader_epoch)
            traces[key] = _merge_traces(traces.get(key), trace)
            end = one.last_offset + 1
    for row in answered:
        values = (row.get(name) for name in ("hw_min", "leo_min", "read_min"))
        bounds = [value for value in values if isinstance(value, int)]
        key = (str(row["topic"]), int(str(row["partition"])), int(str(row["leader_epoch"])))
        known = traces.get(key)
        if known is None or not known.exact:
            traces[key] = _merge_traces(known, EpochTrace(start=min(bounds), exact=False))
    return traces


def _merge_traces(one: EpochTrace | None, other: EpochTrace) -> EpochTrace:
    """Merge two traces: the earlier start counts.

    A log that begins later in the epoch only bounds the start.
    """
    return other if one is None else min(one, other, key=lambda trace: (trace.start, not trace.exact))


def _fold(
    record: RecordFiles,
    table: str,
    keys: list[str],
    values: dict[str, tuple[str, str]],
    where: pc.Expression | None = None,
    chosen: tuple[str, Callable[[pa.Table], pa.Table]] | None = None,
) -> list[dict[str, object]]:
    """Fold a stream of batches into minimum and maximum of value columns by `keys`.

    `chosen`: one more column, and the rows that count by it.
    """
    if not record.has(table):
        return []
    functions = [(column, function) for column in values for function in ("min", "max")]
    renamed = {
        f"{column}_{function}": names[at]
        for column, names in values.items()
        for at, function in enumerate(("min", "max"))
    }
    kept: list[pa.Table] = []
    waiting = 0
    columns = [*keys, *values, *([chosen[0]] if chosen else [])]
    for batch in record.batches(table, columns, where):
        rows = pa.Table.from_batches([batch])
        rows = chosen[1](rows) if chosen else rows
        kept.append(_with_names(rows.group_by(keys).aggregate(functions), renamed))
        waiting += kept[-1].num_rows
        if waiting > _FOLD_AT_ROWS:
            kept = [_fold_again(kept, keys, values)]
            waiting = 0
    return list(_fold_again(kept, keys, values).to_pylist()) if kept else []


def _with_names(table: pa.Table, names: dict[str, str]) -> pa.Table:
    return table.rename_columns([names.get(name, name) for name in table.column_names])


def _fold_again(tables: list[pa.Table], keys: list[str], values: dict[str, tuple[str, str]]) -> pa.Table:
    lows_highs = [pair for low, high in values.values() for pair in ((low, "min"), (high, "max"))]
    folded = pa.concat_tables(tables).group_by(keys).aggregate(lows_highs)
    return _with_names(folded, {f"{name}_{function}": name for name, function in lows_highs})
