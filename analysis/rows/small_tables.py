"""Counts what the tables besides sends, polls and replicas say: HWs, leader epochs, policies, commits and copies.

The clock of the HW observations was *set back* where a broker's answers for a partition, in the order of their rows,
have times that decrease. One thread asks one broker again and again, and writes each answer down before it asks again.
A step forward, or a step back that is shorter than the time between two answers, leaves no trace. Neither changes which
of a broker's answers comes first. A table whose rows are in another order looks like a step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.record.groups import Bools, Ints
from analysis.record.scans import Rows
from analysis.record.timeline import Timeline
from analysis.rows.clients import NO_EPOCH
from analysis.rows.facts import CheckpointFacts, CommitFacts, CopyFacts, EpochFacts, Peak, ServedFacts
from analysis.rows.policies import PolicyFacts
from ebbtide.record.rows import PartitionState

_WATERMARKS = ("topic", "partition", "broker", "leader_epoch", "high_watermark", "source", "asked_ns", "at_ns")
_COMMITS = ("topic", "partition", "group", "offsets_partition", "status", "broker")
_COPIES = ("topic", "partition", "group", "copied_to")
COMMIT_COLUMNS = (*_COMMITS, "commit", "offset", "asked_ns", "done_ns")
COPY_COLUMNS = (*_COPIES, "offset", "value")


class ObservedWatermarks:
    """The HWs that were observed in a run.

    `served` and `checkpoints` are facts.
    """

    columns = _WATERMARKS

    def __init__(self) -> None:
        self.clock_went_back = False
        self._peaks: dict[tuple[str, int, str, int], Ints] = {}
        self._counts: dict[tuple[str, int, str, int], tuple[int, int]] = {}
        self._last: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._newest: dict[tuple[str, str, int, int], int] = {}

    @property
    def served(self) -> list[ServedFacts]:
        """The HWs of each source and leader epoch."""
        return [
            ServedFacts(
                topic=topic,
                partition=partition,
                source=source,
                leader_epoch=None if epoch == NO_EPOCH else epoch,
                peaks=[Peak(hw, at_ns) for hw, at_ns in self._peaks[topic, partition, source, epoch].tolist()],
                rows=rows,
                asked=asked,
            )
            for (topic, partition, source, epoch), (rows, asked) in self._counts.items()
        ]

    @property
    def checkpoints(self) -> list[CheckpointFacts]:
        """The last checkpoint of each replica.

        Of two last rows at one time, the lower HW counts: both agree on it.
        """
        return [CheckpointFacts(*place, -negative) for place, (_, negative) in self._last.items()]

    def add(self, rows: Rows) -> None:
        """Add a batch; the rows of a file come in their order."""
        codes, sources = rows.words("source")
        epoch = np.where(rows.known("leader_epoch"), rows.numbers("leader_epoch"), NO_EPOCH)
        hw, at_ns, broker = (rows.numbers(name) for name in ("high_watermark", "at_ns", "broker"))
        asked = rows.known("asked_ns")
        for (topic, partition), here in rows.parts("partition"):
            for code in np.unique(codes[here]).tolist():
                of_source = here[codes[here] == code]
                source = sources[code]
                for number in np.unique(epoch[of_source]).tolist():
                    some = of_source[epoch[of_source] == number]
                    self._add_served((topic, partition, source, number), hw[some], at_ns[some], asked[some])
                if source == "checkpoint":
                    in_order = of_source[np.lexsort((-hw[of_source], at_ns[of_source]))]
                    last = dict(zip(broker[in_order].tolist(), in_order.tolist(), strict=True))
                    for number, at in last.items():
                        place, seen = (topic, partition, number), (int(at_ns[at]), -int(hw[at]))
                        self._last[place] = max(seen, self._last.get(place, seen))
        self._compare_times(rows, at_ns, asked)

    def _compare_times(self, rows: Rows, at_ns: Ints, asked: Bools) -> None:
        """Look for a clock that was set back; answers without a leader epoch are not judged, and do not count."""
        judged = rows.where_word("source", "list_offsets") & rows.known("leader_epoch")
        self.clock_went_back |= bool((judged & asked & (at_ns < rows.numbers("asked_ns"))).any())
        for (topic, partition, broker), here in rows.parts("partition", "broker"):
            times = at_ns[here[judged[here]]]
            if len(times):
                place = str(rows.group.file.source), topic, partition, broker
                in_order = np.concatenate([[self._newest.get(place, times[0])], times])
                self.clock_went_back |= bool((np.diff(in_order) < 0).any())
                self._newest[place] = int(times[-1])

    def _add_served(self, key: tuple[str, int, str, int], hw: Ints, at_ns: Ints, asked: Bools) -> None:
        counted, were_asked = self._counts.get(key, (0, 0))
        self._counts[key] = (counted + len(hw), were_asked + int(asked.sum()))
        both = np.stack([hw, at_ns], 1)
        self._peaks[key] = _peaks(np.concatenate([self._peaks[key], both]) if key in self._peaks else both)


def _peaks(seen: Ints) -> Ints:
    """Return the HWs, each with the time, of which no higher one was seen at that time or later."""
    ordered = seen[np.lexsort((-seen[:, 1], -seen[:, 0]))]
    before = np.maximum.accumulate(ordered[:, 1])
    is_peak = np.ones(len(ordered), np.bool_)
    is_peak[1:] = ordered[1:, 1] > before[:-1]
    return ordered[is_peak]


def epochs_of(timeline: Timeline) -> list[EpochFacts]:
    """Return the leader epochs in the metadata log."""
    first: dict[tuple[str, int, int], PartitionState] = {}
    last: dict[tuple[str, int, int], PartitionState] = {}
    for (topic, partition), states in timeline.partitions.items():
        for state in states:
            key = topic, partition, state.leader_epoch
            first.setdefault(key, state)
            last[key] = state
    return [EpochFacts(*key, first[key].at_ns, one.metadata_offset, one.leader) for key, one in last.items()]


def policies_of(timeline: Timeline) -> list[PolicyFacts]:
    """Return the cleanup policies. A broker's default has another name than a topic's own policy."""
    names = ("cleanup.policy", "log.cleanup.policy")
    found = ((one.resource, one.value) for one in timeline.configs if one.name in names)
    return [PolicyFacts(*pair) for pair in dict.fromkeys(found)]


class Gathered:
    """All rows of a table, with some of its columns; `table` is None without rows."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = columns
        self._parts: list[pa.Table] = []

    def add(self, rows: Rows) -> None:
        """Add a batch."""
        if "status" in self.columns:
            rows.words("status")  # raises for a word that the format does not have
        self._parts.append(pa.table({name: rows.column(name) for name in self.columns}))

    @property
    def table(self) -> pa.Table | None:
        """The rows."""
        return pa.concat_tables(self._parts) if self._parts else None


def commits_of(table: pa.Table | None) -> list[CommitFacts]:
    """Return the facts of the commits, which have the columns `COMMIT_COLUMNS`."""
    if table is None:
        return []
    foreign = pc.and_(pc.is_null(table["commit"]), pc.is_valid(table["offset"]))
    asked = pc.if_else(foreign, pa.scalar(None, pa.int64()), table["asked_ns"])
    counted = table.select([*_COMMITS, "done_ns"]).append_column("asked", asked)
    by = [([], "count_all"), ("asked", "max"), ("done_ns", "max")]
    rows = counted.group_by([*_COMMITS]).aggregate(by).to_pylist()
    return [
        CommitFacts(
            **{name: row[name] for name in _COMMITS},
            rows=row["count_all"],
            last_asked_ns=row["asked_max"],
            last_done_ns=row["done_ns_max"],
        )
        for row in rows
    ]


def copies_of(table: pa.Table | None) -> list[CopyFacts]:
    """Return the facts of the copies, which have the columns `COPY_COLUMNS`."""
    if table is None:
        return []
    rows = table.group_by([*_COPIES]).aggregate([([], "count_all")]).to_pylist()
    return [CopyFacts(**{name: row[name] for name in _COPIES}, rows=row["count_all"]) for row in rows]
