"""Payloads: every value comes back, nothing else is taken for one, and many at once are those made one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.journal.payload import PAYLOAD_BYTES_MIN, PRODUCER_MAX, PayloadBatches, encode, value_at, value_of

producers = st.integers(1, PRODUCER_MAX)
numbers = st.integers(0, (1 << 40) - 1)
sizes = st.integers(0, 300)


@given(run=st.text(max_size=20), producer=producers, sequence=numbers, number=numbers, size=sizes)
def test_a_value_comes_back_from_its_payload(run: str, producer: int, sequence: int, number: int, size: int) -> None:
    value = value_at(producer, number)
    payload = encode(run, producer, sequence, value, size)
    assert value_of(run)(payload) == value
    assert len(payload) == max(size, PAYLOAD_BYTES_MIN)


@given(first=st.tuples(producers, numbers), second=st.tuples(producers, numbers))
def test_values_are_unique_over_producers_and_fit_an_int64(first: tuple[int, int], second: tuple[int, int]) -> None:
    assert (value_at(*first) == value_at(*second)) == (first == second)
    assert 0 < value_at(*first) < 1 << 63


def test_a_payload_of_another_run_is_foreign() -> None:
    assert value_of("run-b")(encode("run-a", 1, 0, 5)) is None


@pytest.mark.parametrize("size", [0, 100])
def test_any_flipped_bit_is_damage(size: int) -> None:
    payload = encode("run", 7, 3, value_at(7, 3), size)
    value = value_of("run")
    for at in range(len(payload)):
        for bit in range(8):
            damaged = bytearray(payload)
            damaged[at] ^= 1 << bit
            assert value(bytes(damaged)) is None


def test_any_cut_and_any_extension_is_damage() -> None:
    payload = encode("run", 7, 3, value_at(7, 3), 80)
    value = value_of("run")
    assert all(value(payload[:size]) is None for size in range(len(payload)))
    assert value(payload + b"\0") is None


def test_a_tombstone_holds_no_value() -> None:
    assert value_of("run")(None) is None


@given(st.binary(max_size=200))
def test_foreign_bytes_hold_no_value(data: bytes) -> None:
    assert value_of("run")(data) is None


@pytest.mark.parametrize("payload", [b"0.1", b"3.", b"3.01", b"x3.1", b"3.1 ", b"9999999.1", b"3.1099511627776"])
def test_a_text_that_no_producer_sent_has_no_value(payload: bytes) -> None:
    assert value_of("run")(payload) is None


def test_the_text_of_a_java_producer_in_an_older_record_has_its_value() -> None:
    assert value_of("run")(b"3.17") == value_at(3, 17)


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
