"""The partition and the sequence of each record of a producer that serves its partitions in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ebbtide.journal.payload_batches import Ints


class SendTurns:
    """Record numbers count up from 0 over all partitions; the order of the partitions repeats."""

    def __init__(self, partitions: Sequence[int]) -> None:
        """`partitions` are those of the first records, until the order repeats."""
        self._partitions = np.array(partitions, np.int64)
        self._has_one_turn = len(partitions) == 1
        counts = np.bincount(self._partitions)
        seen = [partitions[:turn].count(partition) for turn, partition in enumerate(partitions)]
        self._seen_before = np.array(seen, np.int64)
        self._per_round = counts[self._partitions]

    def partitions(self, numbers: Ints) -> Ints:
        """Return the partition of each record."""
        if self._has_one_turn:  # spares two divisions for each record
            return np.full(len(numbers), self._partitions[0])
        return self._partitions[numbers % len(self._partitions)]

    def sequences(self, numbers: Ints) -> Ints:
        """Return the sequence of each record in its partition."""
        if self._has_one_turn:
            return numbers
        rounds, turns = np.divmod(numbers, len(self._partitions))
        return rounds * self._per_round[turns] + self._seen_before[turns]
