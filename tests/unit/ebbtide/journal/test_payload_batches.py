"""Payloads that NumPy makes at once are, byte by byte, those that are made one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ebbtide.journal.payload import PAYLOAD_BYTES_MIN, PayloadBatches, encode, value_at

PRODUCER = 3


def numbers_of(count: int) -> tuple[list[int], list[int]]:
    """Return sequences and values of which some use all their bytes."""
    dice = random.Random(count)
    sequences = [dice.randrange(1 << dice.randrange(1, 64)) for _ in range(count)]
    return sequences, [value_at(PRODUCER, dice.randrange(1 << 40)) for _ in range(count)]


@pytest.mark.parametrize("payload_bytes", [0, PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MIN + 1, 64, 5_000])
def test_they_are_those_of_one_record_at_a_time(payload_bytes: int) -> None:
    sequences, values = numbers_of(300)
    batches = PayloadBatches("r", PRODUCER, payload_bytes)
    made = batches.encode(np.array(sequences), np.array(values))
    assert made == [
        encode("r", PRODUCER, sequence, value, payload_bytes) for sequence, value in zip(sequences, values, strict=True)
    ]
    assert batches.values_of(made).tolist() == values


def test_no_payloads_have_no_values() -> None:
    batches = PayloadBatches("r", PRODUCER, 64)
    none = np.zeros(0, np.int64)
    assert batches.encode(none, none) == []
    assert batches.values_of([]).tolist() == []
