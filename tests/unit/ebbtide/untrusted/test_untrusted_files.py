"""Files that somebody else made: what is not a file is never opened, and nothing that is read is without end."""

from __future__ import annotations

import gzip
import os
import socket
from pathlib import Path

import cramjam
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.judge.history import log_lines
from ebbtide.errors import UsageError
from ebbtide.logs import codecs
from ebbtide.logs.codecs import Codec, UndecodableError, decompress
from ebbtide.untrusted import parquet
from ebbtide.untrusted.files import UnreadableFile, is_file, is_folder, open_file, path_from, read_file, read_text
from ebbtide.untrusted.parquet import footer_of, read_batches, read_rows
from ebbtide.untrusted.values import DEPTH_MAX, decode_json, decode_toml, decoding


def make_pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def make_socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return path


@pytest.mark.parametrize(
    ("make", "got"),
    [
        (make_pipe, "a pipe"),
        (make_socket, "a socket"),
        (lambda path: Path("/dev/zero"), "a device"),
        (lambda path: path.parent, "a folder"),
        (lambda path: path.with_name("x" * 5_000), "File name too long"),
        (lambda path: path.with_name("a\0b"), "a null byte in its name"),
        (lambda path: path, "No such file or directory"),
        (lambda path: Path("/proc/self/mem"), "Input/output error"),
    ],
    ids=["pipe", "socket", "device", "folder", "long name", "null byte", "missing", "unreadable"],
)
def test_what_is_not_a_readable_file_is_one_error_that_says_what_it_is(tmp_path: Path, make, got: str) -> None:  # type: ignore[no-untyped-def]
    path = make(tmp_path / "x")
    with pytest.raises(UnreadableFile) as refused:
        read_file(path, what="the scenario file")
    assert refused.value.got == got
    assert "the scenario file" in refused.value.what
    assert refused.value.where == str(path)


def test_a_pipe_that_comes_to_lie_there_in_between_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x"
    file.write_text("")
    before = file.stat()
    file.unlink()
    make_pipe(file)
    monkeypatch.setattr(os, "stat", lambda path: before)
    with pytest.raises(UnreadableFile, match="not a regular file"):
        open_file(file)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"123")
    assert read_file(file, bytes_max=3) == b"123"
    with pytest.raises(UnreadableFile, match="too large"):
        read_file(file, bytes_max=2)


def test_a_text_loses_its_byte_order_mark_and_is_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"\xef\xbb\xbfa")
    assert read_text(file) == "a"
    file.write_bytes(b"\xff")
    with pytest.raises(UnreadableFile, match="not UTF-8"):
        read_text(file)


def test_questions_about_names_that_no_file_can_have_are_answered_with_no(tmp_path: Path) -> None:
    for name in ("x" * 5_000, "a\0b", "missing"):
        assert not is_file(tmp_path / name)
        assert not is_folder(tmp_path / name)
    assert is_folder(tmp_path)
    assert not is_file(make_pipe(tmp_path / "pipe"))


@pytest.mark.parametrize("text", ["", "a\0b", "x" * 256, "é" * 128, "/".join(["x" * 200] * 30)])
def test_a_text_that_can_name_no_file_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a path") as refused:
        path_from(text)
    assert len(str(refused.value)) < 300


def test_the_longest_names_are_paths() -> None:
    assert path_from("x" * 255) == Path("x" * 255)
    assert path_from("é" * 127).name == "é" * 127


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[" * 100_000, "recursion"),
        (b"[" * (DEPTH_MAX + 2) + b"]" * (DEPTH_MAX + 2), "nested more than 64 deep"),
        (b'{"a": [1, {"start_ns": 18446744073709551616}]}', r"more than 64 bits - at `\$.a\[1\].start_ns`"),
        (b'"\xff"', "utf-8"),
        (b'{"a": 1}{', "trailing"),
        (b'"\\ud800"', "truncated"),
        (b"", "truncated"),
        (b"9" * 5_000, "out of range"),
    ],
)
def test_json_that_the_code_behind_cannot_take_is_one_kind_of_error(content: bytes, told: str) -> None:
    with pytest.raises(msgspec.DecodeError, match=told):
        decode_json(content, object)


def test_json_of_a_record_is_decoded_as_before() -> None:
    assert decode_json(b'{"a": [1, 9223372036854775807, null, 1.5]}', dict[str, object]) == {
        "a": [1, 2**63 - 1, None, 1.5]
    }


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5_000, "a = " + "[" * 80 + "]" * 80, "a" + ".a" * 100 + " = 1", "a = " + "9" * 5_000, "x"]
)
def test_toml_that_the_code_behind_cannot_take_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_toml(text)


def test_an_error_of_a_decoder_is_one_usage_error() -> None:
    with pytest.raises(UsageError, match="the journal is damaged") as told, decoding("the journal", "x"):
        raise IndexError("list index out of range")
    assert told.value.got == "IndexError: list index out of range"


def write_bomb(path: Path, rows: int) -> Path:
    """Write rows that are all alike: a run of any length takes the same few bytes."""
    column = pa.repeat(pa.scalar(1, pa.int64()), rows)
    pq.write_table(pa.table({"offset": column}), path, compression="zstd", row_group_size=rows)
    return path


def test_a_few_bytes_that_stand_for_many_rows_are_refused_before_a_row_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = write_bomb(tmp_path / "x.parquet", 5_000_000)
    assert bomb.stat().st_size < 50_000
    monkeypatch.setattr(parquet.ds, "dataset", lambda *_, **__: pytest.fail("read before"))
    for read in (footer_of, lambda path: read_rows([path], "sends"), lambda path: list(read_batches([path], "sends"))):
        with pytest.raises(UsageError, match="more rows than its bytes can hold"):
            read(bomb)


def test_a_table_is_read_whole_or_in_batches(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"offset": [1, 2, 3]}), path)
    assert read_rows([path], "sends")["offset"].to_pylist() == [1, 2, 3]
    assert sum(batch.num_rows for batch in read_batches([path], "sends", columns=["offset"])) == 3
    for columns in (["offset", "gone"], ["gone"]):
        with pytest.raises(UsageError, match="the table sends cannot be read"):
            read_rows([path], "sends", columns=columns)
        with pytest.raises(UsageError, match="the table sends cannot be read"):
            list(read_batches([path], "sends", columns=columns))


def test_a_table_with_damaged_pages_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"offset": list(range(1_000))}), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    with pytest.raises(UsageError, match="the table sends cannot be read"):
        read_rows([path], "sends")
    with pytest.raises(UsageError, match="the table sends cannot be read"):
        list(read_batches([path], "sends"))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_a_batch_may_grow_to_its_limit_and_no_further(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "BATCH_BYTES_MAX", 1 << 20)
    compress = {
        Codec.GZIP: cramjam.gzip.compress,
        Codec.LZ4: cramjam.lz4.compress,
        Codec.ZSTD: cramjam.zstd.compress,
        Codec.SNAPPY: cramjam.snappy.compress_raw,
    }[codec]
    assert decompress(codec, memoryview(bytes(compress(bytes(1 << 20))))) == bytes(1 << 20)
    with pytest.raises(UndecodableError, match=codec.name.lower()):
        decompress(codec, memoryview(bytes(compress(bytes((1 << 20) + 1)))))


def test_the_blocks_of_a_snappy_batch_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "BATCH_BYTES_MAX", 1 << 20)
    block = bytes(cramjam.snappy.compress_raw(bytes(600 << 10)))
    framed = b"\x82SNAPPY\x00" + bytes(8) + 2 * (len(block).to_bytes(4, "big") + block)
    with pytest.raises(UndecodableError, match="snappy"):
        decompress(Codec.SNAPPY, memoryview(framed))


def test_a_log_that_grows_past_its_limit_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "broker-1.log.gz"
    log.write_bytes(gzip.compress(bytes(3_000)))
    assert sum(map(len, log_lines.lines_of(log))) == 3_000
    monkeypatch.setattr(log_lines, "_LOG_BYTES_MAX", 2_999)
    with pytest.raises(EOFError):
        list(log_lines.lines_of(log))
