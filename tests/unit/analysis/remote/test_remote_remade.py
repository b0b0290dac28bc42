"""Records elsewhere: what is put back of them, and failures of their file system."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import cast

import pytest
from real_records import unpack_record
from records import as_record

from analysis.judging.one_record import prepare_record
from analysis.remote.files import Entry, RemoteFiles, as_ebbtide_error
from analysis.remote.record import RemoteRecord
from ebbtide.errors import HarnessError, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.sums import SUMS, write_sums


class LocalFiles:
    """A folder of this host in the place of a remote file system; `put` fails after `puts_max` files."""

    def __init__(self) -> None:
        self.put_names: list[str] = []
        self.puts_max = 1_000

    def stat(self, address: str) -> Entry:
        return Entry(name=Path(address).name, is_folder=True, size=0)

    def list_folder(self, address: str) -> list[Entry]:
        found = sorted(Path(address).iterdir())
        return [Entry(name=one.name, is_folder=one.is_dir(), size=one.stat().st_size) for one in found]

    def fetch(self, address: str, to: Path, size: int = 0) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(address, to)

    def put(self, source: Path, address: str) -> None:
        if len(self.put_names) == self.puts_max:
            raise KeyboardInterrupt
        self.put_names.append(source.name)
        Path(address).parent.mkdir(exist_ok=True)
        shutil.copy(source, address)

    def remove(self, address: str) -> None:
        shutil.rmtree(address)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A record with SHA256SUMS that has no replicas/."""
    found = unpack_record("last-replica-standing-4.4.0", tmp_path / "there")
    write_sums(RecordFolder(found))
    shutil.rmtree(found / "replicas")
    return found


def gaps_of_copy(record: Path, files: LocalFiles, copy: Path) -> list[str]:
    """Complete the record's tables as judging does; the gaps of the copy."""
    remote = RemoteRecord(cast(RemoteFiles, files), str(record), copy)
    remote.fetch()
    completed = prepare_record(RecordFolder(copy))
    remote.put_back()
    return [one.why for one in completed.gaps]


def test_the_checksums_are_put_back_last_and_have_no_entry_of_what_is_on_its_way(record: Path, tmp_path: Path) -> None:
    files = LocalFiles()
    assert gaps_of_copy(record, files, tmp_path / "copy") == []
    assert files.put_names[0] == files.put_names[-1] == SUMS
    assert {"broker-1.parquet", "broker-2.parquet", "broker-3.parquet"} <= {*files.put_names}
    assert as_record(record).gaps == ()


@pytest.mark.parametrize("puts", range(6))
def test_tables_that_were_put_back_in_part_are_made_again(record: Path, tmp_path: Path, puts: int) -> None:
    files = LocalFiles()
    files.puts_max = puts
    with pytest.raises(KeyboardInterrupt):
        gaps_of_copy(record, files, tmp_path / "first")
    files.puts_max = 1_000
    assert gaps_of_copy(record, files, tmp_path / "second") == []
    assert as_record(record).gaps == ()


def test_raw_is_fetched_only_where_a_table_is_made_of_it(record: Path, tmp_path: Path) -> None:
    gaps_of_copy(record, LocalFiles(), tmp_path / "copy")
    (record / "partitions.parquet").unlink()
    (why, *_) = gaps_of_copy(record, LocalFiles(), tmp_path / "again")
    assert why.startswith("partitions.parquet is missing")
    assert not (tmp_path / "again" / "raw").exists()


# What Java's exceptions come to, without a Java to raise them.


class FakeJavaError(Exception):
    """Stands for what PySpark raises and for the Java exception that it carries; `said` None: it has no message."""

    def __init__(self, name: str, said: str | None) -> None:
        super().__init__(name)
        self._origin = self
        self._name = name
        self._said = said

    def getClass(self) -> FakeJavaError:
        return self

    def getSimpleName(self) -> str:
        return self._name

    def getMessage(self) -> str | None:
        return self._said

    def getCause(self) -> None:
        return None


@pytest.mark.parametrize(
    ("address", "name", "said"),
    [
        ("hdfs:///runs", "IOException", "Incomplete HDFS URI, no host: hdfs:///runs"),
        ("s3a://", "IllegalArgumentException", "bucket is null/empty"),
    ],
)
def test_an_address_without_a_host_is_a_usage_error(address: str, name: str, said: str) -> None:
    error = as_ebbtide_error(FakeJavaError(name, said), address, "3.4.1")
    assert isinstance(error, UsageError)
    assert error.what == "not an address of a file system"
    assert (error.where, error.got) == (address, f"{name}: {said}")


@pytest.mark.parametrize("said", ["Input/output error", None])
def test_any_other_failure_stays_one(said: str | None) -> None:
    error = as_ebbtide_error(FakeJavaError("IOException", said), "hdfs:///runs", "3.4.1")
    assert isinstance(error, HarnessError)
    assert error.what == "the file system fails"
