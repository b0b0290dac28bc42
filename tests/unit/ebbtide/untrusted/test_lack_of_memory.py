"""A host without memory is not a damaged record: the error says which of them it is."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from records import as_record

from analysis.explain.table_rows import find_rows
from analysis.record import table_files as reconcile_files
from ebbtide.errors import EbbtideError, ExitCode, HarnessError, UsageError
from ebbtide.journal import convert
from ebbtide.record.files import RecordFolder
from ebbtide.record.reading import _read
from ebbtide.record.tables import SENDS
from ebbtide.untrusted.parquet import ParquetSource, footer_of, read_rows
from ebbtide.untrusted.values import decoding
from harness.cli.main import main

LACKS: list[Exception] = [
    MemoryError(),
    pa.ArrowMemoryError("malloc of size 64 failed"),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "sends" / "1.parquet"
    path.parent.mkdir()
    pq.write_table(SENDS.empty_table(), path)
    return path


READERS: list[tuple[str, Callable[[Path], object]]] = [
    ("ebbtide.untrusted.parquet.pq.read_metadata", footer_of),
    ("ebbtide.untrusted.parquet.ds.FileSystemDataset", lambda path: read_rows([path], "sends")),
    ("ebbtide.record.reading.pq.ParquetFile", lambda path: _read(path, SENDS)),
    ("ebbtide.untrusted.parquet.pq.ParquetFile", lambda path: list(find_rows(as_record(path.parents[1]), "sends"))),
    (
        "ebbtide.untrusted.parquet.pq.read_metadata",
        lambda path: reconcile_files.check_file(ParquetSource(path), "sends", []),
    ),
]


@pytest.mark.parametrize("lack", LACKS, ids=repr)
@pytest.mark.parametrize(("part", "read"), READERS, ids=[part for part, _ in READERS])
def test_a_table_that_the_host_cannot_read_is_not_damaged(
    table: Path, monkeypatch: pytest.MonkeyPatch, part: str, read: Callable[[Path], object], lack: Exception
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise lack

    monkeypatch.setattr(part, refuse)
    with pytest.raises(HarnessError, match="too little memory"):
        read(table)


@pytest.mark.parametrize(("error", "kind"), [(MemoryError(), HarnessError), (ValueError("torn"), UsageError)])
def test_a_journal_is_damaged_only_where_its_bytes_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[EbbtideError]
) -> None:
    def refuse(*_: object) -> int:
        raise error

    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "producer-1.journal").touch()
    monkeypatch.setattr(convert, "_convert_whole", refuse)
    with pytest.raises(kind):
        convert.convert_journals(RecordFolder(tmp_path))


def test_a_decoder_without_memory_says_so() -> None:
    with pytest.raises(HarnessError, match="to read raw/"), decoding("raw/ of the record", "here"):
        raise MemoryError


def test_a_command_without_memory_ends_as_a_failure_of_the_host(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> int:
        raise MemoryError

    monkeypatch.setattr("harness.cli.main._run", refuse)
    assert main(["runs"]) == ExitCode.HARNESS_FAILED
    assert "no memory left" in capsys.readouterr().err


def test_a_scan_holds_no_memory_of_python_that_a_thread_could_drop_after_the_interpreter(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = table.read_bytes()
    monkeypatch.setattr("ebbtide.untrusted.parquet.read_file", lambda *_, **__: read)
    before, source = sys.getrefcount(read), ParquetSource(table)
    assert source.content is not None
    assert source.content.to_pybytes() == read
    assert sys.getrefcount(read) == before
