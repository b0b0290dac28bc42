"""A record read from a notebook: `ebbtide.record.open_run`."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checkout import ROOT
from real_records import unpack_record
from records import RecordBuilder

from ebbtide.errors import UsageError
from ebbtide.record import RecordedRun, open_run
from ebbtide.record.files import RecordFolder, is_going, mark_going
from ebbtide.record.tables import ANOMALY_SCHEMA, TABLES, WITNESS_SCHEMA
from ebbtide.record.verdict import unfinished_verdict, write_verdict

DOCS = ROOT / "docs"


@pytest.fixture
def real_run(tmp_path: Path) -> RecordedRun:
    return open_run(unpack_record("last-replica-standing-3.9.1", tmp_path))


def test_the_example_of_the_docs_runs_on_a_recorded_run(
    real_run: RecordedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / "record.md").read_text(), re.DOTALL)
    (tmp_path / "runs").mkdir()
    real_run.path.rename(tmp_path / "runs" / "RUN")
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    first, counts, steps = capsys.readouterr().out.splitlines()
    assert first.startswith("Kafka 3.9.1 has the tables sends polls")
    assert "'status': 'acked', 'value_count': 2000" in counts
    assert "('power-loss', (3,))" in steps


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("commits", "copies", "wire", "handled")])
def test_each_table_has_a_method_that_returns_its_columns_and_all_its_rows(real_run: RecordedRun, name: str) -> None:
    table = getattr(real_run, name)()
    assert table.schema == TABLES[name]
    assert table.num_rows == sum(pq.read_metadata(path).num_rows for path in RecordFolder(real_run.path).files(name))


@pytest.mark.parametrize(
    ("table", "builder"),
    [("commits", RecordBuilder().commit(1, 9)), ("copies", RecordBuilder().copy(1, of=0))],
    ids=["commits", "copies"],
)
def test_what_only_some_runs_journal_is_a_table_of_these(
    real_run: RecordedRun, tmp_path: Path, table: str, builder: RecordBuilder
) -> None:
    with pytest.raises(UsageError, match=f"the record has no table {table}"):
        getattr(real_run, table)()
    assert getattr(open_run(str(builder.write(tmp_path / "run"))), table)().num_rows == 1


def test_what_judging_and_a_witness_leave_are_tables_too(tmp_path: Path) -> None:
    record = RecordBuilder().acked(1, at=0).write(tmp_path / "run")
    for name, schema in (("anomalies", ANOMALY_SCHEMA), ("witness", WITNESS_SCHEMA)):
        (record / name).mkdir()
        pq.write_table(schema.empty_table(), record / name / "none.parquet")
    run = open_run(str(record))
    assert (run.anomalies().schema, run.witness().schema) == (ANOMALY_SCHEMA, WITNESS_SCHEMA)
    assert run.tables == ("sends", "anomalies", "witness")


def test_steps_client_events_wire_events_and_the_verdict_are_typed(real_run: RecordedRun) -> None:
    assert [step.index for step in real_run.steps()] == sorted({step.index for step in real_run.steps()})
    assert {event.event for event in real_run.client_events()["consumer-0"]} <= {"assigned", "revoked", "truncation"}
    assert real_run.wire_events() == []
    with pytest.raises(UsageError, match="has not been judged"):
        real_run.verdict()
    write_verdict(RecordFolder(real_run.path), unfinished_verdict(real_run.manifest.run_id))
    assert real_run.verdict().outcome == "inconclusive"


def test_unknown_columns_are_left_out_missing_nullable_ones_are_null_and_widths_are_those_of_the_format(
    tmp_path: Path,
) -> None:
    record = RecordBuilder().acked(1, 2, at=0).write(tmp_path / "run")
    (path,) = (record / "sends").iterdir()
    table = pq.read_table(path).drop_columns(["txn"])
    wide = table.set_column(table.column_names.index("acks"), "acks", table["acks"].cast(pa.int64()))
    pq.write_table(wide.append_column("colour", pa.array(["red", "blue"])), path)
    found = open_run(record).sends()
    assert found.schema == TABLES["sends"]
    assert found["txn"].to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda table: table.drop_columns(["value"]), "a column is missing"),
        (lambda table: _with(table, "value", pa.array(["1"])), "a column is of another type"),
        (lambda table: _with(table, "value", pa.array([None], pa.int64())), "a column has nulls"),
        (lambda table: _with(table, "acks", pa.array([1000])), "a table's file is damaged"),
    ],
)
def test_a_table_that_does_not_fit_the_format_is_an_error_that_names_the_file(
    tmp_path: Path, change: object, what: str
) -> None:
    record = RecordBuilder().acked(1, at=0).write(tmp_path / "run")
    (path,) = (record / "sends").iterdir()
    pq.write_table(change(pq.read_table(path)), path)  # type: ignore[operator]
    with pytest.raises(UsageError, match=what) as raised:
        open_run(record).sends()
    assert str(path) in str(raised.value)


def _with(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def test_a_missing_table_a_damaged_file_and_a_hidden_one_are_errors(tmp_path: Path) -> None:
    record = RecordBuilder().acked(1, at=0).write(tmp_path / "run")
    run = open_run(record)
    with pytest.raises(UsageError, match="the record has no table polls"):
        run.polls()
    (record / "polls").mkdir()
    (record / "polls" / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="a table's file is damaged"):
        run.polls()
    (record / "polls" / "a.parquet").rename(record / "polls" / ".a.parquet")
    with pytest.raises(UsageError, match="a table's file is hidden"):
        run.polls()


def test_no_record_and_a_run_that_is_still_going_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run record"):
        open_run(tmp_path)
    record = RecordBuilder().acked(1, at=0).write(tmp_path / "run")
    with mark_going(RecordFolder(record)), pytest.raises(UsageError, match="still going"):
        open_run(record)


def test_the_id_of_a_run_in_the_usual_folder_leads_to_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RecordBuilder().acked(1, at=0).write(tmp_path / "runs" / "run-1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        open_run(Path("run-1"))
    assert caught.value.next == "name its folder: runs/run-1"


def test_a_run_is_marked_as_going_although_another_process_looks_at_its_record_at_that_moment(tmp_path: Path) -> None:
    looking = os.open(tmp_path / ".going", os.O_RDONLY | os.O_CREAT, 0o600)
    fcntl.flock(looking, fcntl.LOCK_SH)
    end_of_look = threading.Timer(0.2, os.close, [looking])
    end_of_look.start()
    with mark_going(RecordFolder(tmp_path)):
        assert is_going(RecordFolder(tmp_path))
    end_of_look.join()


def test_the_package_itself_loads_nothing_heavy() -> None:
    code = "import sys, ebbtide.record; print(sorted({'pyarrow', 'msgspec'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_lock_on_the_folder_of_a_record_is_no_mark_and_stops_no_run(tmp_path: Path) -> None:
    """Every user who may list a folder can lock it."""
    of_another_user = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(of_another_user, fcntl.LOCK_EX)
    try:
        assert not is_going(RecordFolder(tmp_path))
        with mark_going(RecordFolder(tmp_path)):
            assert is_going(RecordFolder(tmp_path))
        assert not is_going(RecordFolder(tmp_path))
    finally:
        os.close(of_another_user)


def test_only_the_user_of_a_run_can_open_its_mark_which_ends_with_the_run(tmp_path: Path) -> None:
    with mark_going(RecordFolder(tmp_path)):
        (mark,) = tmp_path.iterdir()
        assert mark.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_sees_that_a_run_is_going(tmp_path: Path) -> None:
    for folder in (tmp_path, *(one for one in tmp_path.parents if re.match("pytest-|popen-", one.name))):
        folder.chmod(0o755)
    ask = "import os, sys\nfrom pathlib import Path\nfrom ebbtide.record.files import is_going\n"
    ask += "from ebbtide.record.files import RecordFolder\n"
    ask += "os.setuid(65534)\nprint(is_going(RecordFolder(Path(sys.argv[1]))))"
    with mark_going(RecordFolder(tmp_path)):
        said = subprocess.run(
            [sys.executable, "-c", ask, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
        )
    assert said.stdout == "True\n"
