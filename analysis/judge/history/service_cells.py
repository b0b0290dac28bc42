"""Folds what clients asked of each partition, and what they got, into cells of time.

A cell has the questions of one kind whose answers came within `CELL_NS`. So the rows of sends, polls and watermarks are
read once, and memory grows with the length of the run in cells and with the number of partitions, not with the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from analysis.record.groups import Bools, Groups, Ints
from analysis.record.scans import Rows, Scan

if TYPE_CHECKING:
    from analysis.record.record import Record
    from analysis.record.timeline import TopicPartition

CELL_NS: Final = 100_000_000
"""Spells without service are exact from this length on."""

POLLED, FINALLY_READ, SAMPLED = "polled", "finally read", "sampled"
"""Questions that are no sends; sends have the number of their acks."""

Kind = int | str

_FOLDED_FROM = 1 << 14
_NEVER = 2**63 - 1
_BY = (np.minimum, np.maximum, np.minimum, np.maximum, np.maximum, np.maximum, np.add, np.maximum)


class ServiceCell(NamedTuple):
    """The questions to a partition whose answers came within one cell.

    - `first`, `last`: the first and the last service; None: there was none.
    - `asked`: when the first of the questions was asked. `answered`: when the last one was answered.
    - `is_back`: one was answered before it was asked. `is_sampled`: the sampler got one of the answers.
    - `services`: how many of them had a time of their own. `end`: the highest offset among these, and one.
    """

    first: int | None
    last: int | None
    asked: int
    answered: int
    is_back: bool
    is_sampled: bool
    services: int
    end: int


class FoldedCells(NamedTuple):
    """The cells of each partition and kind of question: the numbers of the cells, and an array for each field."""

    of: Mapping[TopicPartition, Mapping[Kind, Ints]]

    def of_partition(self, place: TopicPartition, counts: Callable[[Kind], bool]) -> dict[int, ServiceCell]:
        """Return the cells of a partition by their numbers, in order; those of the kinds that count are one."""
        parts = [cells for kind, cells in self.of[place].items() if counts(kind)]
        return {
            at: ServiceCell(None if first == _NEVER else first, None if last < -_NEVER else last, *more)
            for at, first, last, *more in (_fold(parts).T.tolist() if parts else ())
        }

    def partitions(self, counts: Callable[[Kind], bool]) -> Iterator[tuple[TopicPartition, list[ServiceCell]]]:
        """Yield the cells of each partition that has any of the kinds that count."""
        for place in sorted(self.of):
            if cells := self.of_partition(place, counts):
                yield place, list(cells.values())


class ServiceCells(Scan[FoldedCells]):
    """Folds the rows."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "watermarks": ("topic", "partition", "source", "high_watermark", "asked_ns", "at_ns"),
        "sends": ("topic", "partition", "acks", "status", "offset", "sent_ns", "done_ns"),
        "polls": ("topic", "partition", "consumer", "polled_ns"),
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._final = record.manifest.final_consumer or 0
        self._parts: dict[tuple[str, int, Kind], list[Ints]] = {}

    def add(self, rows: Rows) -> None:
        """Fold a batch."""
        match rows.table:
            case "sends":
                self._add_sends(rows)
            case "polls":
                for (topic, partition, consumer), here in rows.parts("partition", "consumer"):
                    at_ns = rows.numbers("polled_ns")[here]
                    kind = FINALLY_READ if consumer == self._final else POLLED
                    self._add((topic, partition, kind), at_ns, at_ns, np.ones(len(here), np.bool_))
            case _:
                answers = rows.where_word("source", "list_offsets") & (rows.numbers("high_watermark") >= 0)
                at_ns = rows.numbers("at_ns")
                asked = np.where(rows.known("asked_ns"), rows.numbers("asked_ns"), at_ns)
                for (topic, partition), every in rows.parts("partition"):
                    if len(here := every[answers[every]]):
                        self._add((topic, partition, SAMPLED), asked[here], at_ns[here], np.ones(len(here), np.bool_))

    def _add_sends(self, rows: Rows) -> None:
        sent, is_done = rows.numbers("sent_ns"), rows.known("done_ns")
        answered, acked = np.where(is_done, rows.numbers("done_ns"), sent), rows.where_word("status", "acked")
        end = np.where(rows.known("offset"), rows.numbers("offset") + 1, 0)
        for (topic, partition, acks), here in rows.parts("partition", "acks"):
            counts = (acked & is_done)[here]
            self._add((topic, partition, acks), sent[here], answered[here], acked[here], counts, end[here])

    def _add(
        self,
        key: tuple[str, int, Kind],
        asked: Ints,
        answered: Ints,
        served: Bools,
        counts: Bools | None = None,
        end: Ints | None = None,
    ) -> None:
        counts = served if counts is None else counts
        rows = np.stack(
            [
                answered // CELL_NS,
                np.where(served, answered, _NEVER),
                np.where(served, answered, -_NEVER - 1),
                asked,
                answered,
                answered < asked,
                np.full(len(asked), key[2] == SAMPLED),
                counts,
                np.zeros(len(asked), np.int64) if end is None else np.where(counts, end, 0),
            ]
        )
        parts = self._parts.setdefault(key, [])
        parts.append(_fold([rows]))
        if len(parts) > 1 and sum(part.shape[1] for part in parts) > max(_FOLDED_FROM, 2 * parts[0].shape[1]):
            parts[:] = [_fold(parts)]

    def result(self) -> FoldedCells:
        """Return the cells."""
        found: dict[TopicPartition, dict[Kind, Ints]] = {}
        for (topic, partition, kind), parts in self._parts.items():
            found.setdefault((topic, partition), {})[kind] = _fold(parts)
        return FoldedCells(found)


def _fold(parts: list[Ints]) -> Ints:
    """Return one column for each cell."""
    rows = np.concatenate(parts, 1) if len(parts) > 1 else parts[0]
    order = np.argsort(rows[0], kind="stable")
    rows = rows if (order[1:] > order[:-1]).all() else rows[:, order]
    groups = Groups([rows[0]], is_sorted=True)
    return np.stack([groups.first(rows[0]), *(groups.over(by, one) for by, one in zip(_BY, rows[1:], strict=True))])
