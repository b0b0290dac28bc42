"""Files of a record that somebody else made: each is one clear error, and writing one follows no link out of it."""

from __future__ import annotations

import contextlib
import errno
import os
from array import array
from pathlib import Path

import pytest

from analysis.evidence.collect import write_checkpoints, write_replicas
from analysis.evidence.table_file import new_table
from ebbtide.errors import HarnessError, UsageError
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.frames import pack_handed
from ebbtide.record.clients import CLIENTS_DIR, ClientEvent, read_client_events, write_client_events
from ebbtide.record.files import JOURNAL_DIR, RecordFolder, new_file, write_atomically
from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import read_steps
from workloads.process import StatusFile

NO_JSON = [b'{"run_id": "\xff"}', b"[" * 100_000]


@pytest.mark.parametrize("content", NO_JSON, ids=["no UTF-8", "too deep"])
def test_what_is_no_json_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clients").mkdir()
    for name in ("manifest.json", "steps.jsonl", "clients/producer-1.jsonl"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match="cannot be decoded"):
        read_manifest(RecordFolder(tmp_path))
    with pytest.raises(UsageError, match=r"steps\.jsonl is damaged"):
        read_steps(RecordFolder(tmp_path))
    with pytest.raises(UsageError, match="a client's events are damaged"):
        read_client_events(RecordFolder(tmp_path))


def test_a_pipe_in_the_place_of_a_clients_events_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "clients").mkdir()
    os.mkfifo(tmp_path / "clients" / "producer-1.jsonl")
    with pytest.raises(UsageError, match="not a regular file"):
        read_client_events(RecordFolder(tmp_path))


def test_a_link_under_the_name_of_a_part_is_not_written_through(tmp_path: Path) -> None:
    mine, record = tmp_path / "mine", tmp_path / "run"
    mine.write_bytes(b"precious")
    record.mkdir()
    (record / "verdict.json.part").symlink_to(mine)
    (record / "verdict.json").symlink_to(mine)
    write_atomically(record / "verdict.json", b"new")
    assert mine.read_bytes() == b"precious"
    assert not (record / "verdict.json").is_symlink()
    assert (record / "verdict.json").read_bytes() == b"new"


def test_a_part_that_cannot_be_put_in_place_is_not_left_behind(tmp_path: Path) -> None:
    (tmp_path / "verdict.json" / "in-the-way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "verdict.json", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["verdict.json"]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file outside of the record that is not to be touched."""
    path = tmp_path / "mine"
    path.write_bytes(b"precious")
    return path


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A record of which the tables are still to be made: a producer's journal, and a broker's folder."""
    path = tmp_path / "run"
    (path / JOURNAL_DIR).mkdir(parents=True)
    (path / "raw" / "broker-1").mkdir(parents=True)
    journal = JournalWriter(
        path / JOURNAL_DIR / "producer-1.journal", JournalHeader(table="sends", id=1, topics=("t",), acks=-1)
    )
    journal.write([pack_handed(0, 0, array("q", [1, 2]))])
    journal.close()
    return path


def complete(record: Path) -> None:
    convert_journals(RecordFolder(record))
    write_replicas(RecordFolder(record), lambda _: None)
    write_checkpoints(RecordFolder(record))


@pytest.mark.parametrize(
    "name",
    ["sends/producer-1.parquet", "replicas/broker-1.parquet", "watermarks/checkpoint.parquet"],
)
@pytest.mark.parametrize("dangling", [False, True], ids=["to a file", "to nothing"])
def test_a_link_under_the_name_of_a_tables_part_is_replaced(
    record: Path, mine: Path, name: str, *, dangling: bool
) -> None:
    part = record / f"{name}.part"
    part.parent.mkdir()
    part.symlink_to(mine.with_name("nothing") if dangling else mine)
    complete(record)
    assert mine.read_bytes() == b"precious"
    assert not mine.with_name("nothing").exists()
    assert len(RecordFolder(record).files(name.partition("/")[0])) == 1
    assert not list(record.rglob("*.part"))


def test_a_link_under_the_name_of_a_status_files_part_is_replaced(tmp_path: Path, mine: Path) -> None:
    (tmp_path / "status.part").symlink_to(mine)
    StatusFile.create(tmp_path / "status", 1)
    assert mine.read_bytes() == b"precious"
    assert StatusFile.open(tmp_path / "status") is not None


def test_a_part_that_comes_to_lie_there_in_between_is_not_opened(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok=False: self.symlink_to(mine))
    with pytest.raises(FileExistsError), new_file(tmp_path / "table"):
        pass
    assert mine.read_bytes() == b"precious"


@pytest.mark.parametrize("folder", ["sends", "clients", "replicas", "watermarks"])
def test_a_folder_that_is_a_link_is_not_written_into(record: Path, tmp_path: Path, folder: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (record / folder).symlink_to(elsewhere)
    with pytest.raises(UsageError, match="a folder of the record is a link") as refused:
        complete(record)
    assert refused.value.where == str(record / folder)
    assert not list(elsewhere.iterdir())


def test_journals_in_a_folder_that_is_a_link_are_not_removed(record: Path, tmp_path: Path) -> None:
    (record / JOURNAL_DIR).rename(tmp_path / "elsewhere")
    (record / JOURNAL_DIR).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="a folder of the record is a link"):
        convert_journals(RecordFolder(record))
    assert (tmp_path / "elsewhere" / "producer-1.journal").is_file()


def test_a_record_that_is_named_by_a_link_is_completed(record: Path, tmp_path: Path) -> None:
    latest = tmp_path / "latest"
    latest.symlink_to(record)
    complete(latest)
    write_client_events(RecordFolder(latest), "consumer-1", [ClientEvent(event="fenced", at_ns=1)])
    assert len(RecordFolder(record).files("sends")) == len(RecordFolder(record).files("replicas")) == 1
    assert (record / CLIENTS_DIR / "consumer-1.jsonl").is_file()


def test_a_table_that_cannot_be_written_is_one_clear_error(record: Path) -> None:
    (record / "replicas").write_text("no folder")
    with pytest.raises(HarnessError, match="a table of the record cannot be made") as failed:
        write_replicas(RecordFolder(record), lambda _: None)
    assert failed.value.where == str(record / "replicas")


def test_an_unreadable_source_of_a_table_is_reported_as_that_source(record: Path) -> None:
    unreadable = OSError(errno.EIO, "Input/output error", "raw/broker-1/t-0/0.log")
    with pytest.raises(HarnessError) as failed, new_table(RecordFolder(record), "partitions"):
        raise unreadable
    assert failed.value.got == str(unreadable)
    assert "make the named file readable" in str(failed.value.next)


def test_a_writer_that_another_one_overtook_leaves_that_ones_file_alone(tmp_path: Path) -> None:
    table = tmp_path / "table"
    with contextlib.ExitStack() as first:
        first.enter_context(new_file(table)).write(b"other")
        with new_file(table) as second:
            second.write(b"who")
            with pytest.raises(FileExistsError, match="another process makes the same file"):
                first.close()
            assert not table.exists()
            second.write(b"le")
    assert table.read_bytes() == b"whole"


def test_a_table_whose_place_is_taken_leaves_no_part(record: Path) -> None:
    (record / "partitions.parquet" / "in-the-way").mkdir(parents=True)
    with (
        pytest.raises(HarnessError, match="a table of the record cannot be made"),
        new_table(RecordFolder(record), "partitions"),
    ):
        pass
    assert not list(record.rglob("*.part"))
