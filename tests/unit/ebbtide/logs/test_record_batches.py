"""Record batches: every byte of a log is in a batch or in a reported damage."""

from __future__ import annotations

import mmap
import os
import struct
from itertools import pairwise
from pathlib import Path

import cramjam
import evidence_builders as build
import pytest
from checkout import DATA
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.logs import scan as scanning
from ebbtide.logs.batches import Batch, LogRecord, parse_header, read_varint
from ebbtide.logs.codecs import UndecodableError, decompress
from ebbtide.logs.scan import Damage, scan, scan_file

LOGS = DATA / "logs"
SEGMENT = build.segment_name(0)

contents = st.tuples(
    st.none() | st.binary(max_size=40),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3).map(tuple),
)


def scan_bytes(data: bytes) -> list[Batch | Damage]:
    return list(scan(build.BytesSource(data)))


def only_batch(data: bytes) -> Batch:
    (item,) = scan_bytes(data)
    assert isinstance(item, Batch)
    return item


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_read_back_what_was_written(value: int) -> None:
    written = build.varint(value)
    assert read_varint(b"\xff" + written + b"\xff", 1) == (value, 1 + len(written))


def test_a_varint_that_never_ends_is_an_error_and_not_a_loop() -> None:
    with pytest.raises(UndecodableError, match="more than ten bytes"):
        read_varint(b"\xff" * 20, 0)


@given(st.lists(contents, min_size=1, max_size=8), st.integers(0, 2**40), st.integers(0, 4), st.integers(-1, 2**31 - 1))
def test_a_batch_reads_back_what_was_written(
    written: list[build.Content], base_offset: int, codec: int, base_sequence: int
) -> None:
    data = build.batch(base_offset, written, epoch=7, codec=codec, producer=(5, 3, base_sequence))
    found = only_batch(data)
    assert (found.base_offset, found.next_offset, found.size) == (base_offset, base_offset + len(written), len(data))
    assert (found.leader_epoch, found.codec, found.count) == (7, codec, len(written))
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (5, 3, base_sequence)
    assert list(found.records()) == [
        LogRecord(
            base_offset + index,
            1_000 + index,
            -1 if base_sequence < 0 else (base_sequence + index) % 2**31,
            key,
            value,
            headers,
        )
        for index, (key, value, headers) in enumerate(written)
    ]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_a_real_broker_compressed_reads_back(codec: str) -> None:
    items = list(scan_file(LOGS / "4.3.1" / f"broker-{codec}-0" / SEGMENT))
    assert {item.codec for item in items if isinstance(item, Batch)} == {
        ["none", "gzip", "snappy", "lz4", "zstd"].index(codec)
    }
    records = [record for item in items if isinstance(item, Batch) for record in item.records()]
    assert [record.offset for record in records] == list(range(300))
    assert [record.sequence for record in records] == [-1] * 150 + list(range(150))
    for record in records:
        index = record.offset % 150
        value = b"" if index % 7 == 1 else b"value %d " % index * (index % 40 + 1)
        assert record.value == (None if index % 7 == 0 else value)
        assert record.key == (b"key-%d" % index if index % 7 == 0 or index % 3 == 0 else None)
        assert record.headers == (("first", b"1"), ("empty", b""), ("first", b"\x00\xff"))[: index % 4]


def test_snappy_without_a_frame_is_read_as_one_block() -> None:
    data = b"some clients write no frame" * 3
    assert decompress(2, memoryview(bytes(cramjam.snappy.compress_raw(data)))) == data


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_damaged_compression_is_an_error_of_ours(codec: int) -> None:
    packed = build.compress(codec, b"something to compress " * 20)
    for damaged in (b"", b"nothing of the kind", packed[:-9]):
        with pytest.raises(UndecodableError):
            decompress(codec, memoryview(damaged))


def test_a_codec_that_kafka_does_not_have_is_named() -> None:
    with pytest.raises(UndecodableError, match="unknown compression codec 6"):
        decompress(6, memoryview(b""))


def test_log_append_time_stamps_every_record_with_the_batch() -> None:
    data = build.batch(0, [(None, b"a", ()), (None, b"b", ())], flags=0x08)
    assert [record.timestamp_ms for record in only_batch(data).records()] == [1_001, 1_001]


def test_records_that_compaction_left_keep_their_offsets_and_sequences() -> None:
    kept = build.record(0, None, b"a") + build.record(3, None, b"d")
    data = build.batch(10, [(None, None, ())] * 4, producer=(1, 0, 2**31 - 2))[:57]
    found = parse_header(memoryview(data + struct.pack(">i", 2) + kept), 0)
    assert (found.next_offset, found.count) == (14, 2)
    assert [(record.offset, record.sequence) for record in found.records()] == [(10, 2**31 - 2), (13, 1)]


def test_flags_are_read_apart() -> None:
    control = only_batch(build.batch(0, [(None, b"", ())], flags=0x20))
    transactional = only_batch(build.batch(0, [(None, b"", ())], flags=0x10))
    assert (control.control, control.transactional) == (True, False)
    assert (transactional.control, transactional.transactional) == (False, True)


def test_headers_are_read_without_touching_the_records() -> None:
    broken = build.batch(0, [(None, b"value", ())], codec=4)
    broken = broken[:61] + b"not zstd" + broken[69:]
    (header,) = scan(build.BytesSource(broken), verify=False)
    assert isinstance(header, Batch)
    assert header.count == 1
    with pytest.raises(UndecodableError):
        list(header.records())


def test_a_log_cut_at_any_byte_loses_only_the_batch_that_was_cut() -> None:
    pieces = [build.plain_batch(0, b"a", b"b"), build.plain_batch(2, b"c"), build.plain_batch(3, b"dd", b"e", b"f")]
    whole = b"".join(pieces)
    ends = [0, len(pieces[0]), len(pieces[0]) + len(pieces[1]), len(whole)]
    for cut in range(len(whole) + 1):
        items = scan_bytes(whole[:cut])
        intact = max(end for end in ends if end <= cut)
        if cut in ends:
            assert [type(item) for item in items] == [Batch] * ends.index(cut)
            continue
        *batches, last = items
        assert isinstance(last, Damage)
        assert (last.kind, last.position, last.size, last.tail) == ("torn", intact, cut - intact, True)
        assert len(batches) == ends.index(intact)


def test_a_flipped_bit_anywhere_in_the_checked_bytes_is_damage_in_the_middle() -> None:
    first, second, third = build.plain_batch(0, b"a"), build.plain_batch(1, b"b"), build.plain_batch(2, b"c")
    for position in range(21, len(second)):
        flipped = bytearray(second)
        flipped[position] ^= 0x10
        before, damage, after = scan_bytes(first + bytes(flipped) + third)
        assert isinstance(damage, Damage)
        assert (damage.kind, damage.position, damage.size, damage.tail) == ("checksum", len(first), len(second), False)
        assert damage.base_offset == 1
        assert isinstance(before, Batch)
        assert isinstance(after, Batch)
        assert after.base_offset == 2


@pytest.mark.parametrize("zeros", [12, 60, 61, 4096, 9 << 20])
def test_a_tail_of_zeros_is_distinguished_from_a_torn_batch(zeros: int, tmp_path: Path) -> None:
    path = build.write_log(tmp_path, build.plain_batch(0, b"a"), bytes(zeros))
    batch, damage = scan_file(path)
    assert isinstance(batch, Batch)
    assert isinstance(damage, Damage)
    assert (damage.kind, damage.position, damage.size, damage.tail) == ("zeros", batch.size, zeros, True)


def test_a_batch_whose_end_was_never_written_is_reported_with_the_zeros_behind_it() -> None:
    second = build.plain_batch(1, b"b" * 500)
    half_written = second[:200] + bytes(len(second) - 200)
    kinds = [
        item.kind
        for item in scan_bytes(build.plain_batch(0, b"a") + half_written + bytes(512))
        if isinstance(item, Damage)
    ]
    assert kinds == ["checksum", "zeros"]


def test_bytes_that_cannot_start_a_batch_end_the_scan_and_are_counted() -> None:
    first = build.plain_batch(0, b"a")
    for garbage, detail in (
        (b"\x00" * 8 + b"\x00\x00\x00\x05" + b"x" * 100, "length field says 5"),
        (b"\xff" * 100, "length field says -1"),
        (build.plain_batch(1, b"b")[:16] + b"\x01" + build.plain_batch(1, b"b")[17:], "magic 1"),
    ):
        _, damage = scan_bytes(first + garbage)
        assert isinstance(damage, Damage)
        assert (damage.kind, damage.size) == ("header", len(garbage))
        assert detail in damage.detail


def test_offsets_that_go_back_are_damage() -> None:
    items = scan_bytes(build.plain_batch(5, b"a", b"b") + build.plain_batch(6, b"again") + build.plain_batch(7, b"c"))
    assert [getattr(item, "kind", "batch") for item in items] == ["batch", "order", "batch"]


def test_every_byte_is_accounted_for_whatever_is_overwritten() -> None:
    whole = b"".join(build.plain_batch(offset, b"x" * offset) for offset in range(6))
    for position in range(0, len(whole), 7):
        damaged = whole[:position] + b"\xa5" * 9 + whole[position + 9 :]
        items = scan_bytes(damaged)
        ends = [item.position + item.size for item in items]
        assert ends[-1] == len(damaged)
        assert all(end == item.position for end, item in zip(ends, items[1:], strict=False))


def test_a_file_larger_than_the_reading_window_gives_the_same_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "WINDOW_BYTES", 256)
    pieces = [build.plain_batch(offset, b"y" * (offset * 37 % 700)) for offset in range(40)]
    path = build.write_log(tmp_path, *pieces, b"torn")
    from_file, from_bytes = list(scan_file(path)), scan_bytes(path.read_bytes())
    assert from_file == from_bytes
    assert len(from_file) == 41


def test_a_length_beyond_the_file_is_not_read_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torn = bytearray(build.plain_batch(1, b"b"))
    torn[8:12] = b"\x7f\xff\xff\xff"
    path = build.write_log(tmp_path, build.plain_batch(0, b"a"), bytes(torn))
    asked = []

    def pread(fd: int, size: int, position: int) -> bytes:
        asked.append(size)
        return real(fd, size, position)

    real = os.pread
    monkeypatch.setattr(os, "pread", pread)
    _, damage = scan_file(path)
    assert isinstance(damage, Damage)
    assert (damage.kind, damage.size) == ("torn", len(torn))
    assert max(asked) <= scanning.WINDOW_BYTES


def test_an_mmap_can_be_scanned(tmp_path: Path) -> None:
    path = build.write_log(tmp_path, build.plain_batch(0, b"a"), build.plain_batch(1, b"b"))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = memoryview(mapped)
        offsets = [item.base_offset for item in scan(build.BytesSource(view))]
        view.release()
    assert offsets == [0, 1]


@pytest.mark.parametrize("count", [0, 1, 3, 2_000_000_000])
def test_a_record_count_that_is_wrong_is_an_error(count: int) -> None:
    data = bytearray(build.plain_batch(0, b"a", b"b"))
    data[57:61] = count.to_bytes(4, "big")
    (found,) = scan(build.BytesSource(bytes(data)), verify=False)
    assert isinstance(found, Batch)
    with pytest.raises(UndecodableError):
        list(found.records())


@given(st.binary(max_size=300))
def test_records_of_any_bytes_end_in_records_or_in_an_error_of_ours(payload: bytes) -> None:
    data = build.plain_batch(0, b"a", b"b")[:61] + payload
    found = parse_header(memoryview(data), 0)
    try:
        records = list(found.records())
    except UndecodableError:
        return
    assert all(before.offset <= after.offset + 2**32 for before, after in pairwise(records))
