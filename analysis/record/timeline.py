"""Reads the metadata timeline: what the controller decided, in log order.

The tables partitions, brokers and configs grow with the decisions of the controller and not with
the records of the run, so they are held on the driver. Metadata offsets are the order. Times are
the controller's, in whole milliseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import msgspec

from analysis.evidence.report import ControllerLog, TimelineReport
from analysis.record.files import RecordFiles
from ebbtide.record.manifest import WatchFacts
from ebbtide.record.rows import BrokerEvent, ConfigChange, PartitionState
from ebbtide.record.tables import TABLES
from ebbtide.record.topic_lives import is_deleted, name_of
from ebbtide.untrusted.parquet import read_rows
from ebbtide.untrusted.values import decoding

T = TypeVar("T")
S = TypeVar("S")

TopicPartition = tuple[str, int]

MILLISECOND_NS = 1_000_000
"""The controller's times are cut to milliseconds."""
_WRITTEN_FIRST = ("unfenced", "shutting_down")
"""Events whose own record comes before the partition records of its batch.

The records of all other events come behind them.
"""


class Lasting(NamedTuple, Generic[S, T]):
    """A state that lasted: the row that began it, and until when; `end_ns` None: no later row ends it."""

    state: S
    row: T
    begin_ns: int
    end_ns: int | None


def lasting(rows: Iterable[tuple[int, T]], state_of: Callable[[T], S | None]) -> Iterator[Lasting[S, T]]:
    """Yield each state of some rows, which have their times, for as long as it stays the same; None is no state."""
    open_: tuple[S, T, int] | None = None
    for at_ns, row in rows:
        state = state_of(row)
        if open_ is not None and state != open_[0]:
            yield Lasting(*open_, at_ns)
            open_ = None
        if open_ is None and state is not None:
            open_ = state, row, at_ns
    if open_ is not None:
        yield Lasting(*open_, None)


class Timeline(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Every partition's states, broker events and config changes by metadata offset.

    `missing` names the tables that were absent or empty: what depends on them is unknown. `torn`:
    the metadata log that they were made of is damaged, so they may lack its last records. `gaps`:
    they may lack records in the middle or at the start, because the log did or because nothing
    shows that it did not.
    """

    partitions: dict[TopicPartition, tuple[PartitionState, ...]] = {}
    brokers: tuple[BrokerEvent, ...] = ()
    configs: tuple[ConfigChange, ...] = ()
    missing: frozenset[str] = frozenset()
    torn: bool = False
    gaps: bool = False

    def states(self, topic: str, partition: int) -> tuple[PartitionState, ...]:
        """Return all states of one partition, oldest first; empty when the log has none."""
        return self.partitions.get((topic, partition), ())

    def state_at(self, topic: str, partition: int, metadata_offset: int) -> PartitionState | None:
        """Return the state in force once the record at `metadata_offset` was applied."""
        states = self.states(topic, partition)
        found = bisect_right(states, metadata_offset, key=lambda state: state.metadata_offset)
        return states[found - 1] if found else None

    def state_after(self, state: PartitionState) -> PartitionState | None:
        """Return the partition's next state; None: there is none."""
        states = self.states(state.topic, state.partition)
        found = bisect_right(states, state.metadata_offset, key=lambda one: one.metadata_offset)
        return states[found] if found < len(states) else None

    def state_at_time(self, topic: str, partition: int, at_ns: int) -> PartitionState | None:
        """Return the newest state whose record has a time of at most `at_ns`.

        If `at_ns` is before all of them, it is the first state.
        """
        states = self.states(topic, partition)
        found = [state for state in states if state.at_ns <= at_ns]
        return found[-1] if found else (states[0] if states else None)

    def epoch_start_ns(self, topic: str, partition: int, epoch: int) -> int | None:
        """Return when a leader epoch of the partition began, by the controller's clock.

        None: the timeline does not have the epoch.
        """
        return next((one.at_ns for one in self.states(topic, partition) if one.leader_epoch == epoch), None)

    @cached_property
    def events_by_offset(self) -> dict[int, tuple[BrokerEvent, ...]]:
        """The broker events of each partition record's batch, by the offset of the partition record.

        Batches are not in the tables, but their records are contiguous: only partition records are
        between a record and the event of its batch.
        """
        offsets = sorted({state.metadata_offset for states in self.partitions.values() for state in states})
        events: dict[int, list[BrokerEvent]] = {}
        for event in self.brokers:
            events.setdefault(event.metadata_offset, []).append(event)
        found: dict[int, list[BrokerEvent]] = {offset: [] for offset in offsets}
        for ordered, step in ((offsets, 1), (offsets[::-1], -1)):
            carried: list[BrokerEvent] = []
            last: int | None = None
            for offset in ordered:
                if last != offset - step:
                    carried = []
                behind = [
                    event for event in events.get(offset - step, ()) if (event.event in _WRITTEN_FIRST) == (step == 1)
                ]
                carried = behind or carried
                last = offset
                found[offset] += carried
        return {offset: tuple(causes) for offset, causes in found.items() if causes}

    def registered_with(self, after: PartitionState) -> frozenset[int] | None:
        """Return the brokers that registered in the batch of this state's record; None: not known."""
        if "brokers" in self.missing:
            return None
        events = self.events_by_offset.get(after.metadata_offset, ())
        return frozenset(one.broker for one in events if one.event == "registered")

    @cached_property
    def reused_names(self) -> frozenset[str]:
        """The names that several topics had, one after the other."""
        return frozenset(name_of(topic) for topic, _ in self.partitions if is_deleted(topic))

    @property
    def newest_ns(self) -> int:
        """The time of the newest record that is known."""
        states = (states[-1].at_ns for states in self.partitions.values() if states)
        others = (one.at_ns for table in (self.brokers, self.configs) for one in table)
        return max([*states, *others], default=0)

    def pairs(self) -> Iterator[tuple[PartitionState, PartitionState]]:
        """Yield every state with its successor, within one life of the partition."""
        for states in self.partitions.values():
            for before, after in pairwise(states):
                if not after.follows_recreation(before):
                    yield before, after


def rows(record: RecordFiles, table: str) -> list[dict[str, object]]:
    """Return all rows of a small table in metadata order.

    A nullable column that is missing reads as null. Raises `UsageError` when a file is damaged or
    lacks a column that may not be null.
    """
    files = record.files(table)
    if not files:
        return []
    schema = TABLES[table]
    read = read_rows(files, table, schema=schema).sort_by("metadata_offset")
    for field in schema:
        if not field.nullable and read.column(field.name).null_count:
            raise record.error_of_null(table, field.name)
    return list(read.to_pylist())


def _rows_as(record: RecordFiles, table: str, kind: type[T]) -> list[T]:
    found = rows(record, table)
    with decoding(f"the table {table}", record.folder.path):
        return [msgspec.convert(row, kind) for row in found]


def load_timeline(record: RecordFiles) -> Timeline:
    """Read the timeline of a record.

    Tables that are missing or empty are named in `missing`, not refused.
    """
    partition_rows = _rows_as(record, "partitions", PartitionState)
    broker_rows = _rows_as(record, "brokers", BrokerEvent)
    config_rows = _rows_as(record, "configs", ConfigChange)
    report = record.reports.timeline
    by_partition: dict[TopicPartition, list[PartitionState]] = {}
    for state in partition_rows:
        states = by_partition.setdefault((state.topic, state.partition), [])
        if not (states and _is_same_state(states[-1], state)):
            states.append(state)
    by_table: dict[str, Sequence[object]] = {
        "partitions": partition_rows,
        "brokers": broker_rows,
        "configs": config_rows,
    }
    return Timeline(
        partitions={key: tuple(states) for key, states in by_partition.items()},
        brokers=tuple(broker_rows),
        configs=tuple(config_rows),
        missing=frozenset(name for name, found in by_table.items() if not found),
        torn=report is not None and any(log.damage is not None for log in _logs_used(report)),
        gaps=report is None or bool(report.skipped) or any(log.start_offset > 0 for log in _logs_used(report)),
    )


def watched_timeline(record: RecordFiles, timeline: Timeline, watch: WatchFacts) -> Timeline:
    """Return the timeline of a cluster that was only watched.

    Its log begins with a snapshot where the controllers had deleted what is older. The topics of a
    watch are made after that, so nothing of them is missing at the start.
    """
    report = record.reports.timeline
    return msgspec.structs.replace(
        timeline,
        torn=timeline.torn or watch.why_log_ends is not None,
        gaps=report is None or bool(report.skipped),
    )


def _logs_used(report: TimelineReport) -> list[ControllerLog]:
    """Return the log that the tables were made of."""
    return [log for log in report.logs if log.controller == report.controller]


def _is_same_state(one: PartitionState, other: PartitionState) -> bool:
    """Return whether a snapshot only repeats the state: a repetition is no transition."""
    place = {"metadata_offset": 0, "metadata_epoch": 0, "at_ns": 0}
    return msgspec.structs.replace(one, **place) == msgspec.structs.replace(other, **place)
