"""Finds records in replicas' logs that their leader should have refused: an old producer epoch, or a skipped sequence.

The order of a log decides, and no time. What stands in one log was appended to it in this order, or copied from a
leader that did so. So this holds in every replica's log, whatever it lost at its end:

- The epochs of a producer id never go back, of records and of the markers of transactions.
- Between two records of a producer id and epoch with no offset missing between them, no sequence is skipped.

Rows are compared within a batch of the table only, so a table of many batches has some neighbours that are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from analysis.judge.history.evidence import Row
from analysis.record.groups import Bools, Ints
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan

_SEQUENCES = 1 << 31
"""The sequence after 2^31 - 1 is 0."""
_NUMBERS = ("offset", "producer_id", "producer_epoch", "sequence")


class ProducerOrder(NamedTuple):
    """How many logs have records of idempotent producers, and the first record of each that should not be there."""

    logs: int
    first: Sequence[Row]


class FindProducerOrder(Scan[ProducerOrder]):
    """Compares each record of an idempotent producer with the one before it in the log."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "replicas": ("broker", "topic", "partition", *_NUMBERS, "control")
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._topics = record.manifest.topics.keys()
        self._is_wanted = any(one.idempotent or one.transactional for one in record.manifest.producers.values())
        self._logs: dict[tuple[str, int, int], list[Row]] = {}

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter."""
        return self._is_wanted

    def add(self, rows: Rows) -> None:
        """Add a batch of the replicas' logs."""
        offset, producer, epoch, sequence = (rows.numbers(name) for name in _NUMBERS)
        for log, every in rows.parts("partition", "broker"):
            here = every[producer[every] >= 0]
            if log[0] not in self._topics or not len(here):
                continue
            before, after = _neighbours(rows, here)
            self._keep(rows, log, before, after, epoch[after] < epoch[before])
            before, after = _neighbours(rows, here[~rows.flags("control")[here]])
            step = (sequence[after] - sequence[before]) % _SEQUENCES
            # A sequence that goes back is a duplicate, of which another clause knows.
            skipped = (epoch[after] == epoch[before]) & (step > 1) & (step < _SEQUENCES // 2)
            places = np.sort(offset[every])
            between = np.searchsorted(places, offset[after]) - np.searchsorted(places, offset[before])
            self._keep(rows, log, before, after, skipped & (between == offset[after] - offset[before]))

    def _keep(self, rows: Rows, log: tuple[str, int, int], before: Ints, after: Ints, found: Bools) -> None:
        """Keep the first record of a log, beside what the log has of its producer before it."""
        kept = self._logs.setdefault(log, [])
        if found.any() and not kept:
            at = np.flatnonzero(found)[np.argmin(rows.numbers("offset")[after[found]])]
            row: Row = dict(zip(("topic", "partition", "broker"), log, strict=True))
            row |= {name: int(rows.numbers(name)[after[at]]) for name in _NUMBERS}
            kept.append(row | {f"{name}_before": int(rows.numbers(name)[before[at]]) for name in _NUMBERS})

    def result(self) -> ProducerOrder:
        """Return the records, by their places."""
        return ProducerOrder(len(self._logs), [row for log in sorted(self._logs) for row in self._logs[log]])


def _neighbours(rows: Rows, here: Ints) -> tuple[Ints, Ints]:
    """Return each row and the next one of the same producer id in the log."""
    producer, offset = rows.numbers("producer_id"), rows.numbers("offset")
    ordered = here[np.lexsort((offset[here], producer[here]))]
    before, after = ordered[:-1], ordered[1:]
    same = producer[before] == producer[after]
    return before[same], after[same]
