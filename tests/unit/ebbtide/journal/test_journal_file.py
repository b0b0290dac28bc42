"""Journals: what was written whole is read, what was not is counted, and a full disk is never silent."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.journal.file import MAGIC, JournalError, JournalHeader, JournalReader, JournalWriter, frame
from ebbtide.journal.frames import (
    AnsweredSends,
    PolledRecords,
    pack_answered,
    pack_handed,
    pack_polled,
    pack_watermarks,
    unpack_answered,
    unpack_handed,
    unpack_polled,
    unpack_watermarks,
)

HEADER = JournalHeader(table="sends", id=3, topics=("t",), acks=-1)
FRAME_OVERHEAD = 9
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)


def _write_journal(path: Path, payloads: list[bytes]) -> list[int]:
    """A journal of these payloads; the file's size after the header and after each frame."""
    writer = JournalWriter(path, HEADER)
    sizes = [path.stat().st_size]
    for payload in payloads:
        writer.write([frame(1, payload)])
        sizes.append(path.stat().st_size)
    writer.close()
    return sizes


def test_frames_come_back_in_order_with_the_header(tmp_path: Path) -> None:
    payloads = [b"", b"a", b"x" * 5000]
    _write_journal(tmp_path / "j", payloads)
    reader = JournalReader(tmp_path / "j")
    assert list(reader.frames()) == [(1, payload) for payload in payloads]
    assert reader.header == HEADER
    assert reader.torn_bytes == 0


def test_a_tail_torn_at_any_byte_costs_that_frame_and_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "j"
    payloads = [b"first", b"second!", b"third, the longest"]
    sizes = _write_journal(path, payloads)
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        reader = JournalReader(path)
        frames = list(reader.frames())
        kept = sum(size <= cut for size in sizes)
        assert frames == [(1, payload) for payload in payloads[: max(0, kept - 1)]]
        assert (reader.header is None) == (kept == 0)
        last = sizes[kept - 1] if kept else (len(MAGIC) if cut >= len(MAGIC) else 0)
        assert reader.torn_bytes == cut - last


def test_a_damaged_frame_ends_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "j"
    sizes = _write_journal(path, [b"first", b"second"])
    data = bytearray(path.read_bytes())
    data[sizes[0] + FRAME_OVERHEAD] ^= 1
    path.write_bytes(data)
    reader = JournalReader(path)
    assert list(reader.frames()) == []
    assert reader.torn_bytes == len(data) - sizes[0]


def test_a_length_that_can_only_be_damage_is_not_allocated(tmp_path: Path) -> None:
    path = tmp_path / "j"
    _write_journal(path, [])
    with path.open("ab") as file:
        file.write(b"\xff\xff\xff\xff" + b"\0" * 20)
    reader = JournalReader(path)
    assert list(reader.frames()) == []
    assert reader.torn_bytes == 24


def test_an_empty_file_is_all_torn_and_has_no_header(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b"")
    reader = JournalReader(tmp_path / "j")
    assert (reader.header, list(reader.frames()), reader.torn_bytes) == (None, [], 0)


def test_a_full_disk_is_an_error_that_says_so() -> None:
    with pytest.raises(JournalError) as error:
        JournalWriter(Path("/dev/full"), HEADER)
    assert "No space left" in str(error.value)
    assert "next:" in str(error.value)


@given(int32, int64, st.lists(st.tuples(int64, int64), max_size=50))
def test_handed_frames_keep_their_rows(partition: int, first: int, rows: list[tuple[int, int]]) -> None:
    flat = array("q", [number for row in rows for number in row])
    assert unpack_handed(pack_handed(partition, first, flat)[FRAME_OVERHEAD:]) == (partition, first, flat)


@given(int32, int64, st.integers(0, 2**32 - 1), st.integers(0, 2), int64, int64, st.text(max_size=30))
def test_answers_keep_their_fields(p: int, first: int, count: int, status: int, base: int, done: int, e: str) -> None:
    answer = AnsweredSends(
        partition=p, first_sequence=first, count=count, status=status, base_offset=base, done_ns=done, error=e
    )
    assert unpack_answered(pack_answered(answer)[FRAME_OVERHEAD:]) == answer


@given(st.lists(st.tuples(int64, int64, int64), max_size=50), int32, int64)
def test_polls_keep_their_rows(rows: list[tuple[int, int, int]], session: int, previous: int) -> None:
    offsets, values, epochs = (array("q", [row[column] for row in rows]) for column in range(3))
    polled = PolledRecords(
        topic=1,
        partition=2,
        session=session,
        previous=previous,
        polled_ns=9,
        offsets=offsets,
        values=values,
        epochs=epochs,
    )
    assert unpack_polled(pack_polled(polled)[FRAME_OVERHEAD:]) == polled


@given(st.lists(int64, max_size=70))
def test_marks_keep_their_numbers(numbers: list[int]) -> None:
    assert unpack_watermarks(pack_watermarks(array("q", numbers))[FRAME_OVERHEAD:]) == array("q", numbers)
