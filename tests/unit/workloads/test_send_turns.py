"""Which partition and which sequence a record has is known from its number."""

from __future__ import annotations

import numpy as np
import pytest

from workloads.librdkafka_sends import SendTurns


@pytest.mark.parametrize("order", [[0], [2], [0, 1, 2], [1, 0, 1, 1, 2]], ids=["one", "one key", "in turn", "by keys"])
def test_records_of_a_partition_are_counted_from_0_in_the_order_of_their_numbers(order: list[int]) -> None:
    counts: dict[int, int] = {}
    expected = []
    for number in range(40):
        partition = order[number % len(order)]
        expected.append((partition, counts.get(partition, 0)))
        counts[partition] = counts.get(partition, 0) + 1
    turns, numbers = SendTurns(order), np.arange(40)
    found = zip(turns.partitions(numbers).tolist(), turns.sequences(numbers).tolist(), strict=True)
    assert list(found) == expected
    assert turns.sequences(numbers[17:]).tolist() == [sequence for _, sequence in expected[17:]]
