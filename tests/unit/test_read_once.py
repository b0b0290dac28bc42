"""A record is read once: how often judging opens each small file, and which functions still take a path.

Both are held at what they are, so that they can only fall.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from checkout import ROOT
from file_opens import opens_in
from pyspark.sql import SparkSession
from real_records import unpack_record

from analysis.items import check_record
from analysis.judge.rules import registry
from analysis.judging.one_record import conclude, judge, prepare_record
from analysis.reconcile.model import Reconciliation
from analysis.rows.summing import sum_up
from ebbtide.record.folder import RecordFolder
from ebbtide.record.sums import write_sums
from ebbtide.record.tables import ANOMALY_SCHEMA
from ebbtide.record.verdict import Counts
from ebbtide.untrusted import parquet

PACKAGES = ("ebbtide", "cluster", "faults", "workloads", "analysis", "harness")

EDGES = {
    "ebbtide/judging_process.py": 3,
    "ebbtide/pytest_plugin/runner.py": 4,
    "ebbtide/pytest_plugin/settings.py": 1,
    "harness/cli/judging.py": 3,
    "harness/cli/night_work.py": 2,
    "harness/cli/run.py": 1,
    "harness/cli/run_flow.py": 1,
}
"""Where a record is still a path, because a user or another process named it: how many functions take it so.

All others take a `RecordFolder` or a `Record`.
"""

OPENS = {
    "SHA256SUMS": 1,
    "clients/consumer-0.jsonl": 2,
    "clients/consumer-1.jsonl": 2,
    "clients/producer-1.jsonl": 2,
    "evidence.json": 2,
    "logs/controller-100.log.gz": 1,
    "manifest.json": 2,
    "scenario.toml": 2,
    "steps.jsonl": 2,
}
"""How often judging opens each small file of a record; one of the opens is for its checksum."""

LARGE_TABLE_OPENS_MAX = {"sends": 3, "polls": 3, "watermarks": 3, "described": 3, "replicas": 5}
"""How often judging a clean record opens each file of a table that is too large to be held in memory.

Each time is for its footer, for its checksum, or for the one pass over its rows. The checksum of a table that was made
from raw/ also decides whether it must be made again.
"""

TABLE_OPENS_MAX = 1
"""How often judging opens each small file of a table, its checksum and its page included."""


def test_judging_opens_each_small_file_as_seldom_as_it_is_known_to(tmp_path: Path) -> None:
    folder = _packed("last-replica-standing-4.4.0", tmp_path)
    with opens_in(folder) as opened:
        record = prepare_record(RecordFolder(folder))
        check_record(record)
        conclude(record, Reconciliation(counts=Counts(), anomalies=[], unknown={}))
    small = {name: count for name, count in opened.items() if not name.endswith((".parquet", ".part", ".going"))}
    assert small == OPENS


@pytest.mark.spark
@pytest.mark.parametrize("name", ["unclean-election-4.4.0", "tolerated-power-losses-3-2-4.4.0"])
def test_judging_opens_each_table_at_most_three_times(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """With its page: one record has lost records, the other one is clean."""
    folder = _packed(name, tmp_path)
    with opens_in(folder) as opened:
        judge(RecordFolder(folder), spark)
    tables = {one: count for one, count in opened.items() if one.endswith(".parquet") and not _is_derived(one)}
    assert tables.keys() >= {"partitions.parquet", "polls/consumer-0.parquet", "watermarks/sampler.parquet"}
    assert {one: count for one, count in tables.items() if count > TABLE_OPENS_MAX} == {}


def test_judging_opens_each_table_that_is_too_large_to_be_held_at_most_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its footer, its checksum, and one pass over its rows, which answers all that is asked of a clean record."""
    monkeypatch.setattr(parquet, "HELD_FILE_MAX", -1)
    folder = _packed("tolerated-power-losses-3-2-4.4.0", tmp_path)
    with opens_in(folder) as opened:
        record = prepare_record(RecordFolder(folder))
        check_record(record)
        sum_up(record, 0, lambda: tmp_path, registry.questions())
        conclude(record, Reconciliation(counts=Counts()))
    most: dict[str, int] = {}
    for name, count in opened.items():
        table = name.partition("/")[0]
        most[table] = max(count, most.get(table, 0))
    assert {table: most[table] for table in LARGE_TABLE_OPENS_MAX} == LARGE_TABLE_OPENS_MAX


def _packed(name: str, to: Path) -> Path:
    folder = unpack_record(name, to)
    write_sums(RecordFolder(folder))
    (folder / "anomalies").mkdir(exist_ok=True)
    pq.write_table(ANOMALY_SCHEMA.empty_table(), folder / "anomalies" / "none.parquet")
    return folder


def _is_derived(name: str) -> bool:
    return name.startswith("anomalies/")


@pytest.mark.parametrize("is_native", [False, True])
def test_an_open_of_a_file_is_counted(tmp_path: Path, *, is_native: bool) -> None:
    path = tmp_path / "file"
    pq.write_table(ANOMALY_SCHEMA.empty_table(), path)
    read = pq.read_metadata if is_native else Path.read_bytes
    with opens_in(tmp_path) as opened:
        read(path)
        read(path)
    read(path)
    assert opened == {"file": 2}


def test_only_the_edges_take_the_path_of_a_record() -> None:
    found = Counter(
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for _ in _with_a_path(path.read_text())
    )
    assert found == EDGES


def test_the_judge_opens_no_file_of_a_record_past_its_folder() -> None:
    """`RecordFolder` opens regular files alone; a bare path could be a link, a pipe or a folder."""
    judge = [path for name in ("record", "judge", "reconcile") for path in (ROOT / "analysis" / name).rglob("*.py")]
    assert {str(path.relative_to(ROOT)): lines for path in judge if (lines := _bypasses(path.read_text()))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "text = (record.folder / NAME).read_text()",
        "if (folder / NAME).is_file(): ...",
        "lines = read_file(record.folder / NAME, what=NAME)",
    ],
)
def test_a_file_that_is_opened_past_the_folder_is_seen(line: str) -> None:
    assert _bypasses(f"x = 1\n{line}\n") == [line]


TABLES_OPENED = {
    "analysis/record/files.py": 1,
    "analysis/causes/columns.py": 1,
    "analysis/record/table_files.py": 1,
    "analysis/report/stories.py": 1,
    "analysis/judge/causes/lost_offsets.py": 1,
    "analysis/judge/coverage/workload_facts.py": 1,
}
"""Where tables are opened: by the record, to size a Spark session, and for anomalies/, which judging writes."""


def test_the_judge_opens_tables_by_the_record_alone() -> None:
    folders = ("record", "rows", "judge", "causes", "reconcile", "items", "report", "explain")
    judge = [path for name in folders for path in (ROOT / "analysis" / name).rglob("*.py")]
    found = {str(path.relative_to(ROOT)): len(_opens_of_tables(path.read_text())) for path in judge}
    assert {name: count for name, count in found.items() if count} == TABLES_OPENED


@pytest.mark.parametrize(
    "line",
    [
        'files = record.folder.files("sends")',
        "with pq.ParquetFile(path) as file:",
        "rows = pq.read_table(path)",
        "footer = footer_of(path)",
        'table = ds.dataset(str(path), format="parquet")',
    ],
)
def test_a_table_that_is_opened_past_the_record_is_seen(line: str) -> None:
    assert _opens_of_tables(f"x = 1\n{line}\n") == [line]


@pytest.mark.parametrize(
    "text",
    [
        "def f(record: Path): ...",
        "async def f(a, *, record: Path | None = None): ...",
        "class A:\n def f(self, record: Path): ...",
    ],
)
def test_a_function_with_the_path_of_a_record_is_seen(text: str) -> None:
    assert list(_with_a_path(text)) == ["f"]


def test_a_function_with_another_path_or_a_record_is_not_counted() -> None:
    assert list(_with_a_path("def f(folder: Path, record: Record): ...")) == []


def _with_a_path(text: str) -> Iterator[str]:
    """Yield the functions that have a parameter `record` which is a path."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if one.arg == "record" and one.annotation is not None and "Path" in ast.unparse(one.annotation):
                    yield node.name


_BYPASS = re.compile(
    r"folder / [^)]*\)\.(is_file|is_dir|exists|read_|open)|\bread_(file|text)\((self\.|record\.)?folder /"
)


def _bypasses(text: str) -> list[str]:
    """Return the lines that open or look for a file of a record by its path."""
    return [line for line in text.splitlines() if _BYPASS.search(line)]


_OPENS_TABLE = re.compile(
    r"folder\.(files|paths)\(|\b(ParquetFile|read_table|read_metadata|ds\.dataset)\(|= footer_of\("
)


def _opens_of_tables(text: str) -> list[str]:
    """Return the lines that open a file of a table, or look for one to open."""
    return [line for line in text.splitlines() if _OPENS_TABLE.search(line)]
