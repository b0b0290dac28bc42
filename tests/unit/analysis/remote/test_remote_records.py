"""Records on another file system than this host's: a viewfs:// of Hadoop's own client, whose files lie here."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checkout import DATA
from judge_records import last_replica_standing
from pyspark.sql import SparkSession
from records import RecordBuilder, as_record

from analysis.judging.many_records import judge_many
from analysis.remote import files as remote_files
from analysis.remote.files import Entry, RemoteFiles
from analysis.remote.record import RemoteStore
from analysis.spark import tables
from bench.reconciling import reconcile
from ebbtide.errors import EbbtideError, HarnessError, UsageError
from ebbtide.record.verdict import Verdict
from harness.cli.main import main

pytestmark = pytest.mark.spark

RUNS = DATA / "runs"


class Remote:
    """A folder of this host, and the address under which Hadoop knows it."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address


@pytest.fixture
def remote(spark: SparkSession, tmp_path: Path) -> Remote:
    """The clients of a mount table are kept: each test has its own."""
    folder, name = tmp_path / "there", f"m{uuid.uuid4().hex}"
    folder.mkdir()
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set(f"fs.viewfs.mounttable.{name}.link./data", folder.as_uri())
    conf.set("ipc.client.connect.max.retries", "0")
    return Remote(folder, f"viewfs://{name}/data")


@pytest.fixture
def files(spark: SparkSession) -> Iterator[RemoteFiles]:
    files = RemoteFiles(spark)
    yield files
    files.close()


def judge_remote(spark: SparkSession, address: str) -> dict[str, Verdict | EbbtideError]:
    with RemoteStore(spark) as store:
        remote = {one.folder: one for one in store.records_in(address)}
        return {str(remote[at]): verdict for at, verdict in judge_many(list(remote), spark, remote=remote)}


def written_files(record: Path) -> list[str]:
    """The files of a record without the checksums that Hadoop's local file system adds."""
    names = (path.relative_to(record).as_posix() for path in record.rglob("*") if path.is_file())
    return sorted(name for name in names if not name.endswith(".crc"))


def anomalies(record: Path) -> list[str]:
    return sorted(map(str, pq.read_table(record / "anomalies", partitioning=None).to_pylist()))


def test_a_folder_of_records_elsewhere_is_judged_as_the_same_records_here(
    spark: SparkSession,
    remote: Remote,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here, scratch = tmp_path / "here", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    for folder in (here, remote.folder):
        shutil.copytree(RUNS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("verdict.json"))
        rows = RecordBuilder().acked(1, 2, 3, at=0).final(1, None, 2).read(1, 3, at=0).checkpoint(1, 3).checkpoint(2, 3)
        rows.replica(1, 1, 2, 3).replica(2, 1, 4, 3).write(folder / "made")
        (folder / "notes").mkdir()
    assert main(["analyze", str(here), "--json"]) == 2
    told = capsys.readouterr().out
    assert [len(json.loads(line)["anomalies"]) for line in told.splitlines()] == [1, 0, 5]
    assert main(["analyze", remote.address, "--json"]) == 2
    assert capsys.readouterr().out == told
    for name in (*(path.name for path in RUNS.iterdir()), "made"):
        record, copy = remote.folder / name, here / name
        assert (record / "verdict.json").read_bytes() == (copy / "verdict.json").read_bytes()
        assert anomalies(record) == anomalies(copy)
        report = (record / "report.html").read_text()
        assert report == (copy / "report.html").read_text().replace(f"ls {copy}", f"hadoop fs -ls {copy}").replace(
            str(copy), f"{remote.address}/{name}"
        )
        assert {path for path in written_files(record) if "anomalies" not in path} == {
            path for path in written_files(copy) if "anomalies" not in path
        }
    assert [path.name for path in scratch.iterdir()] == []


def test_the_executors_of_another_master_get_rows_on_the_records_file_system(
    spark: SparkSession, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = RecordBuilder().acked(1, 2, at=0).final(1, 2)
    builder.write(remote.folder / "run")
    monkeypatch.setattr(tables, "is_local", lambda _: False)
    with RemoteStore(spark) as store:
        (record,) = store.records_in(f"{remote.address}/run")
        record.fetch()
        copy = as_record(record.folder, builder.manifest())
        copy.remote = record
        with tables.staged_tables(spark, [copy]) as staged:
            staged.add("numbers", pa.table({"number": [1, 2]}))
            numbers = staged.frame("numbers", pa.schema([pa.field("number", pa.int64())]))
            assert all(path.startswith(f"{remote.address}/run/.") for path in numbers.inputFiles())
            assert sorted(row.number for row in numbers.collect()) == [1, 2]
    assert not [path.name for path in (remote.folder / "run").glob(".*.rows")]


def test_the_executors_of_another_master_get_rows_beside_a_record_of_this_host(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "is_local", lambda _: False)
    builder = RecordBuilder().acked(1, 2, at=0).final(1)
    record = as_record(builder.write(tmp_path / "run"), builder.manifest())
    with tables.staged_tables(spark, [record]) as staged:
        files = staged.frame("numbers", pa.schema([pa.field("number", pa.int64())])).inputFiles()
        assert all(path.startswith(f"file://{tmp_path}/run/.") for path in files)
    assert [one.kind for one in reconcile(spark, record).anomalies] == ["lost"]
    assert not [path.name for path in (tmp_path / "run").glob(".*.rows")]


def test_judging_again_replaces_what_was_written_and_a_person_reads_addresses(
    spark: SparkSession, remote: Remote, capsys: pytest.CaptureFixture[str]
) -> None:
    record = remote.folder / "run"
    RecordBuilder().acked(1, 2, at=0).final(1, 2).write(record)
    (record / "verdict.json").write_text("{}")
    (record / "anomalies").mkdir()
    (record / "anomalies" / "old.parquet").write_bytes(b"")
    address = f"{remote.address}/run"
    assert main(["analyze", address]) == 2
    out = capsys.readouterr().out
    assert f"report: {address}/report.html" in out
    assert f"hadoop fs -cat {address}/verdict.json " in out
    first = written_files(record)
    assert "anomalies/old.parquet" not in first
    assert json.loads((record / "verdict.json").read_text())["counts"]["acked"] == 2
    assert main(["analyze", address]) == 2
    assert len(written_files(record)) == len(first)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def without_end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty_file(path: Path) -> None:
    path.write_bytes(b"")


def with_a_footer_too_long(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8] + (2**30).to_bytes(4, "little") + b"PAR1")


def foreign(path: Path) -> None:
    pq.write_table(pa.table({"offset": ["a", "b"]}), path)


@pytest.mark.parametrize("table", ["sends", "replicas"])
@pytest.mark.parametrize("damage", [cut, without_end, empty_file, with_a_footer_too_long, foreign])
def test_a_damaged_table_elsewhere_is_the_same_error_as_here(
    spark: SparkSession, remote: Remote, tmp_path: Path, table: str, damage: Callable[[Path], None]
) -> None:
    builder = RecordBuilder().acked(1, 2, at=0).final(1, 2).replica(1, 1, 2)
    here, there = builder.write(tmp_path / "here" / "run"), builder.write(remote.folder / "run")
    for record in (here, there):
        damage(record / table / "part-0.parquet")
    ((_, error),) = judge_many([here], spark)
    (found,) = judge_remote(spark, f"{remote.address}/run").items()
    assert isinstance(error, UsageError)
    assert isinstance(found[1], UsageError)
    assert found[1].render() == error.render().replace(str(here), found[0])
    assert f"{table}" in found[1].render()
    assert "part-0.parquet" in found[1].render()


def test_what_is_no_record_is_the_same_error_as_here(
    spark: SparkSession, remote: Remote, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (tmp_path / "here", remote.folder):
        (folder / "empty").mkdir(parents=True)
        (folder / "file").write_text("x")
        (folder / "newer").mkdir()
        (folder / "newer" / "manifest.json").write_text('{"record_version": 99, "run_id": "r"}')
    for name in ("nowhere", "empty", "file", "newer"):
        assert main(["analyze", str(tmp_path / "here" / name)]) == 4
        # `ebbtide runs` lists folders of this host only.
        listed = f"ebbtide runs --runs {tmp_path / 'here'}    (lists the records there)"
        said = capsys.readouterr().err.replace(listed, "ebbtide runs    (lists the records under ./runs)")
        assert main(["analyze", f"{remote.address}/{name}"]) == 4
        counted, _, found = capsys.readouterr().err.partition("\n")
        assert counted.startswith("judging 1 run")
        assert found == said.replace(str(tmp_path / "here"), remote.address)
        assert written_files(remote.folder) == ["file", "newer/manifest.json"]


def test_tables_that_a_killed_run_left_undone_are_completed_in_the_record_itself(
    spark: SparkSession, remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, kept = remote.folder / "run", tmp_path / "partitions.parquet"
    record.mkdir()
    story = last_replica_standing(record)
    story.write()
    (record / "partitions.parquet").rename(kept)
    for table in ("brokers", "configs"):
        (record / f"{table}.parquet").unlink(missing_ok=True)
    for folder in ("raw", "journal"):
        (record / folder).mkdir()
        (record / folder / "some").write_text("x")

    def write_timeline(folder: Path) -> None:
        assert (folder / "raw" / "some").read_text() == "x"
        shutil.copy(kept, folder / "partitions.parquet")

    monkeypatch.setattr("analysis.evidence.collect.write_timeline", write_timeline)
    monkeypatch.setattr("analysis.evidence.collect.write_replicas", lambda *_: None)
    monkeypatch.setattr("analysis.evidence.collect.write_checkpoints", lambda *_: None)
    ((_, verdict),) = judge_remote(spark, f"{remote.address}/run").items()
    assert isinstance(verdict, Verdict)
    assert verdict.coverage["elections"] > 0
    assert (record / "partitions.parquet").read_bytes() == kept.read_bytes()
    assert (record / "raw" / "some").exists()
    assert not (record / "journal").exists()


def test_a_name_that_leads_out_of_its_folder_is_refused(files: RemoteFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("..", ".", "", "a/b", "a\\b", "a\0b"):
        monkeypatch.setattr(files, "_call", lambda *_, name=name: [Entry(name=name, is_folder=False, size=1)])
        with pytest.raises(UsageError, match="lead out of its folder"):
            files.list_folder("hdfs://host/run")


def test_a_record_that_does_not_fit_here_is_refused_before_it_is_copied(
    spark: SparkSession, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    RecordBuilder().acked(1, 2, at=0).final(1, 2).write(remote.folder / "run")
    usage = shutil.disk_usage("/")
    monkeypatch.setattr("analysis.remote.record.shutil.disk_usage", lambda _: usage._replace(free=1000))
    ((address, error),) = judge_remote(spark, f"{remote.address}/run").items()
    assert isinstance(error, HarnessError)
    assert "no space" in error.what
    assert address in (error.allowed or "")


def test_a_record_that_cannot_be_written_to_says_so(remote: Remote, files: RemoteFiles) -> None:
    files.check_writable(remote.address)
    assert written_files(remote.folder) == []
    with pytest.raises(HarnessError, match="cannot be written to"):
        files.check_writable(remote.address.removesuffix("/data"))


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        ("nosuch://host/runs", 4, ["no file system has this scheme", '"nosuch"']),
        ("s3a://bucket/runs", 4, ["jar of this file system is not", "S3AFileSystem", "hadoop-aws:3."]),
        ("hdfs:///runs", 4, ["not an address of a file system", "no host", "hdfs://HOST/FOLDER"]),
        ("hdfs://127.0.0.1:1/runs", 3, ["the file system does not answer", "ConnectException"]),
        ("viewfs://no-such-table/runs", 3, ["no-such-table"]),
        ("hdfs://nowhere.invalid/runs", 3, ["the file system does not answer", "UnknownHost"]),
    ],
)
def test_an_address_that_leads_nowhere_is_one_clear_error(
    remote: Remote, capsys: pytest.CaptureFixture[str], address: str, code: int, said: list[str]
) -> None:
    assert main(["analyze", address]) == code
    err = capsys.readouterr().err
    assert err.count("error:") == 1
    assert all(part in err for part in [*said, f"where:   {address}"])
    assert "Traceback" not in err
    assert "\tat " not in err


def test_a_server_that_never_answers_is_given_up_once_for_all_its_records(
    files: RemoteFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_files, "ANSWER_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"hdfs://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(HarnessError, match="no answer within 1 s"):
            files.stat(f"{address}/one")
        monkeypatch.setattr(remote_files, "ANSWER_S", 600.0)
        with pytest.raises(HarnessError, match="no answer within 1 s") as again:
            files.list_folder(f"{address}/two")
        assert again.value.where == f"{address}/two"
    assert files.stat("file:///nowhere") is None
