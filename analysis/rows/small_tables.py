"""Counts what the tables besides sends, polls and replicas say: HWs, leader epochs, policies, commits and copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.rows.batches import BatchReader, RowGroup, Rows, batches, for_each, row_groups
from analysis.rows.clients import NO_EPOCH
from analysis.rows.facts import CheckpointFacts, CommitFacts, CopyFacts, EpochFacts, Peak, ServedFacts
from analysis.rows.groups import Ints
from analysis.rows.policies import PolicyFacts
from analysis.rows.runs import RunFiles

_WATERMARKS = ("topic", "partition", "broker", "leader_epoch", "high_watermark", "source", "asked_ns", "at_ns")
_EPOCHS = ("metadata_offset", "at_ns", "topic", "partition", "leader", "leader_epoch")
_COMMITS = ("topic", "partition", "group", "offsets_partition", "status", "broker")
_COPIES = ("topic", "partition", "group", "copied_to")


class ObservedWatermarks:
    """The HWs that were observed in a run.

    `served` and `checkpoints` are facts. The questions `asked` may sum up some columns, too.
    """

    def __init__(self, run: RunFiles, asked: Sequence[BatchReader]) -> None:
        self._asked = [one for one in asked if "watermarks" in one.reads]
        self._peaks: dict[tuple[str, int, str, int], Ints] = {}
        self._counts: dict[tuple[str, int, str, int], tuple[int, int]] = {}
        self._last: dict[tuple[str, int, int], tuple[int, int]] = {}
        for group in row_groups(run, 0, "watermarks"):
            for_each([group], self._add_group)

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

    def _add_group(self, group: RowGroup) -> None:
        for rows in batches(group, {*_WATERMARKS, *(name for one in self._asked for name in one.reads["watermarks"])}):
            self._add(rows)
            for one in self._asked:
                one.add(rows)

    def _add(self, rows: Rows) -> None:
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

    def _add_served(self, key: tuple[str, int, str, int], hw: Ints, at_ns: Ints, asked: Any) -> None:
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


def epochs_of(run: RunFiles) -> list[EpochFacts]:
    """Return the leader epochs in the metadata log."""
    first: dict[tuple[str, int, int], tuple[int, int]] = {}
    last: dict[tuple[str, int, int], tuple[int, int]] = {}
    table = _read(run, "partitions", _EPOCHS)
    if table is None:
        return []
    columns = [table[name].to_pylist() for name in ("topic", "partition", "leader_epoch")]
    for key, offset, at_ns, leader in zip(
        zip(*columns, strict=True),
        *(table[name].to_pylist() for name in ("metadata_offset", "at_ns", "leader")),
        strict=True,
    ):
        first[key] = min((offset, at_ns), first.get(key, (offset, at_ns)))
        last[key] = max((offset, leader), last.get(key, (offset, leader)))
    return [EpochFacts(*key, first[key][1], *last[key]) for key in first]


def policies_of(run: RunFiles) -> list[PolicyFacts]:
    """Return the cleanup policies.

    A broker's default has another name than a topic's own policy.
    """
    table = _read(run, "configs", ("resource", "name", "value"))
    if table is None:
        return []
    rows = table.filter(pc.is_in(table["name"], pa.array(["cleanup.policy", "log.cleanup.policy"]))).to_pylist()
    return [PolicyFacts(*pair) for pair in dict.fromkeys((row["resource"], row["value"]) for row in rows)]


def commits_of(run: RunFiles) -> tuple[list[CommitFacts], pa.Table | None]:
    """Return the facts of the commits, and all rows."""
    table = _read(run, "commits", (*_COMMITS, "commit", "offset", "asked_ns", "done_ns"))
    if table is None:
        return [], None
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
    ], table


def copies_of(run: RunFiles) -> tuple[list[CopyFacts], pa.Table | None]:
    """Return the facts of the copies, and all rows."""
    table = _read(run, "copies", (*_COPIES, "offset", "value"))
    if table is None:
        return [], None
    rows = table.group_by([*_COPIES]).aggregate([([], "count_all")]).to_pylist()
    return [CopyFacts(**{name: row[name] for name in _COPIES}, rows=row["count_all"]) for row in rows], table


def _read(run: RunFiles, table: str, columns: Sequence[str]) -> pa.Table | None:
    """Return the columns of a table; None if it has no rows."""
    parts: list[pa.Table] = []
    for group in row_groups(run, 0, table):
        for_each([group], lambda group: parts.extend(_columns(rows, columns) for rows in batches(group, columns)))
    return pa.concat_tables(parts) if parts else None


def _columns(rows: Rows, columns: Sequence[str]) -> pa.Table:
    if "status" in columns:
        rows.words("status")  # raises for a word that the format does not have
    return pa.table({name: rows.column(name) for name in columns})
