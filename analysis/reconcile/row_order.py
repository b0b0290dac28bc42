"""Leaves out the sends that cannot be in another order than they were sent.

`inversions.inversions` looks at each two neighbours of a producer's acked sends of one partition,
by sequence. Of a batch, only these rows matter: those next to a decrease of the offset, and the first
and the last row of each producer and partition. The offsets of the rows between do not decrease, so
the remaining neighbours are in order too.

That holds only if no other batch has sequences between those of a batch (`SequenceRanges`). Where
one has, all rows are needed.
"""

from __future__ import annotations

from itertools import pairwise
from threading import Lock

import numpy as np
import pyarrow as pa

from analysis.reconcile import row_sums
from analysis.reconcile.row_batches import Rows

_RANGES_MAX = 1_000_000
_KEY = ("partition", "producer")

ORDER = pa.schema(
    [
        pa.field("run", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("producer", pa.int32()),
        pa.field("sequence", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("value", pa.int64()),
    ]
)


class SequenceRanges:
    """The lowest and highest sequence of each producer and partition in each batch."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ranges: list[tuple[int, str, int, int, int, int]] = []

    def add(self, key: tuple[int, str, int, int], lowest: int, highest: int) -> None:
        """Add the range of a run's topic, partition and producer in one batch."""
        with self._lock:
            self._ranges.append((*key, lowest, highest))

    def are_apart(self) -> bool:
        """Return whether no two batches have sequences of one producer and partition that overlap."""
        if len(self._ranges) > _RANGES_MAX:
            return False
        ordered = sorted(self._ranges)
        return all(one[:4] != next_[:4] or one[5] < next_[4] for one, next_ in pairwise(ordered))


def rows_in_order(rows: Rows, ranges: SequenceRanges) -> pa.Table:
    """Return the rows of a batch that matter."""
    placed = row_sums.placed_sends(rows)
    sequence, offset, value = (rows.numbers(name) for name in ("sequence", "offset", "value"))
    tables = []
    for (topic, partition, producer), here in rows.parts(*_KEY):
        some = here[placed[here]]
        if not len(some):
            continue
        if (np.diff(sequence[some]) <= 0).any():
            some = some[np.lexsort((value[some], offset[some], sequence[some]))]
        back = np.diff(offset[some]) < 0
        matters = np.zeros(len(some), np.bool_)
        matters[0] = matters[-1] = True
        matters[1:] |= back
        matters[:-1] |= back
        ranges.add((rows.run, topic, partition, producer), int(sequence[some[0]]), int(sequence[some[-1]]))
        chosen = some[matters]
        same = {"run": rows.run, "topic": topic, "partition": partition, "producer": producer}
        columns = [pa.array([one] * len(chosen), ORDER.field(name).type) for name, one in same.items()]
        columns += [pa.array(column[chosen]) for column in (sequence, offset, value)]
        tables.append(pa.Table.from_arrays(columns, schema=ORDER))
    return pa.concat_tables(tables) if tables else ORDER.empty_table()
