"""A record is read once: how often judging opens each small file, and that it opens none past the folder of its record.

The counts are held at what they are, so that they can only fall.
"""

from __future__ import annotations

import ast
import ctypes
import os
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from checkout import ROOT
from pyspark.sql import SparkSession
from quick import quick_first
from real_records import unpack_record

from analysis.items import check_record
from analysis.judge.rules import registry
from analysis.judging.many_records import judge
from analysis.judging.one_record import conclude, prepare_record
from analysis.reconcile.model import Reconciliation
from analysis.report.html import write_report
from analysis.rows.summing import sum_up
from ebbtide.record.files import RecordFolder
from ebbtide.record.sums import write_sums
from ebbtide.record.tables import ANOMALY_SCHEMA
from ebbtide.record.verdict import Counts
from ebbtide.untrusted import parquet

_OPENED, _CLOSED, _OF_FOLDER, _LOST = 0x20, 0x10, 0x40000000, 0x4000
_EVENT = struct.Struct("iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def opens_in(folder: Path) -> Iterator[Counter[str]]:
    """Count the opens of files that are in a folder, or in folders in it, when the block begins, by their names."""
    counted: Counter[str] = Counter()
    notices = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert notices >= 0, os.strerror(ctypes.get_errno())
    try:
        watched = {_watch(notices, path): path for path in (folder, *folder.rglob("*")) if path.is_dir()}
        yield counted
        for number, mask, name in _events(notices):
            assert not mask & _LOST, "the kernel dropped events"
            if mask & _OPENED and not mask & _OF_FOLDER and name:
                counted[str((watched[number] / name).relative_to(folder))] += 1
    finally:
        os.close(notices)


def _watch(notices: int, folder: Path) -> int:
    # Two equal events in a row are one. So each open is followed by the close.
    number: int = _LIBC.inotify_add_watch(notices, os.fsencode(folder), _OPENED | _CLOSED)
    assert number >= 0, os.strerror(ctypes.get_errno())
    return number


def _events(notices: int) -> Iterator[tuple[int, int, str]]:
    while True:
        try:
            read = os.read(notices, 1 << 20)
        except BlockingIOError:
            return
        at = 0
        while at < len(read):
            number, mask, _, length = _EVENT.unpack_from(read, at)
            at += _EVENT.size
            yield number, mask, os.fsdecode(read[at : at + length].rstrip(b"\0"))
            at += length


OPENS = {
    "SHA256SUMS": 1,
    "clients/consumer-0.jsonl": 2,
    "clients/consumer-1.jsonl": 2,
    "clients/producer-1.jsonl": 2,
    "evidence.json": 2,
    "logs/controller-100.log.gz": 1,
    "manifest.json": 2,
    **{f"raw/broker-{broker}/t-0/leader-epoch-checkpoint": 1 for broker in (1, 2, 3)},
    "scenario.toml": 2,
    "steps.jsonl": 2,
}
"""How often judging opens each small file of a record; one of the opens is for its checksum, except in raw/.
"""

LARGE_TABLE_OPENS_MAX = {"sends": 2, "polls": 2, "watermarks": 2, "described": 2, "replicas": 4}
"""How often judging a clean record opens each file of a table that is too large to be held in memory.

It is opened for its footer and its checksum, and for the one pass over its rows. Here replicas is made from raw/ first:
each file is written, and summed.
"""

LARGE_LOSSY_TABLE_OPENS_MAX = {"sends": 3, "polls": 3, "watermarks": 3, "described": 2, "replicas": 5}
"""The same of a record with lost records, its page included.

One more pass chooses rows. It also feeds what the causes ask of all partitions.
"""

TABLE_OPENS_MAX = 1
"""How often judging opens each small file of a table, its checksum and its page included."""


def test_judging_opens_each_small_file_as_seldom_as_it_is_known_to(tmp_path: Path) -> None:
    folder = _packed("last-replica-standing-4.4.0", tmp_path)
    with opens_in(folder) as opened:
        record = prepare_record(RecordFolder(folder))
        check_record(record)
        write_report(record, conclude(record, Reconciliation(counts=Counts(), anomalies=[], unknown={})))
    small = {name: count for name, count in opened.items() if not name.endswith((".parquet", ".part", ".going"))}
    assert small == OPENS


@pytest.mark.spark
@pytest.mark.parametrize("name", quick_first(["tolerated-power-losses-3-2-4.4.0", "unclean-election-4.4.0"]))
def test_judging_opens_each_table_at_most_three_times(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """With its page: one record has lost records, the other one is clean."""
    folder = _packed(name, tmp_path)
    with opens_in(folder) as opened:
        judge(folder, spark)
    tables = {one: count for one, count in opened.items() if one.endswith(".parquet") and not _is_derived(one)}
    assert tables.keys() >= {"partitions.parquet", "polls/consumer-0.parquet", "watermarks/sampler.parquet"}
    assert {one: count for one, count in tables.items() if count > TABLE_OPENS_MAX} == {}


def test_judging_opens_each_table_that_is_too_large_to_be_held_at_most_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its footer and checksum, and for one pass over its rows, which answers all that a clean record is asked."""
    monkeypatch.setattr(parquet, "HELD_FILE_MAX", -1)
    folder = _packed("tolerated-power-losses-3-2-4.4.0", tmp_path)
    with opens_in(folder) as opened:
        record = prepare_record(RecordFolder(folder))
        check_record(record)
        sum_up(record, 0, lambda: tmp_path, registry.questions())
        write_report(record, conclude(record, Reconciliation(counts=Counts())))
    assert _most_opens(opened) == LARGE_TABLE_OPENS_MAX


@pytest.mark.spark
def test_judging_a_lossy_record_opens_each_large_table_as_seldom_as_it_is_known_to(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "HELD_FILE_MAX", -1)
    folder = _packed("unclean-election-4.4.0", tmp_path)
    with opens_in(folder) as opened:
        judge(folder, spark)
    assert _most_opens(opened) == LARGE_LOSSY_TABLE_OPENS_MAX


def _most_opens(opened: Mapping[str, int]) -> dict[str, int]:
    """Return the opens of the file of each large table that was opened most often."""
    most: dict[str, int] = {}
    for name, count in opened.items():
        table = name.partition("/")[0]
        most[table] = max(count, most.get(table, 0))
    return {table: most[table] for table in LARGE_TABLE_OPENS_MAX}


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


BELOW = ("record", "rows", "reconcile", "items", "causes", "judge", "sentences", "explain", "report")
"""The folders of analysis/ that take a record, and no path to one."""

TAKE_A_PATH = {
    "report/pages.py:write_page": "the page that it writes",
    "items/store.py:_replace": "a folder beside the one that it replaces",
    "judge/history/log_lines.py:lines_of": "a log, which the folder named",
    "judge/history/markers.py:batches_in": "a log, which the folder named",
    "judge/rules/own.py:own_rules": "the files of rules that a user named",
    "judge/rules/own.py:read_own_rule": "the file of a user's rule",
    "record/files.py:is_same": "two files of a table, which the folder named",
    "record/files.py:_in_words": "the place of an error",
}
"""The functions in these folders that take a path all the same, and what it is."""


def _sources_below() -> list[Path]:
    return [path for name in BELOW for path in sorted((ROOT / "analysis" / name).rglob("*.py"))]


def _functions_with_a_path(text: str) -> list[str]:
    """Return the functions that have a parameter for a path, or for several."""
    return [
        one.name
        for one in ast.walk(ast.parse(text))
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        for each in (*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs)
        if each.annotation is not None and re.search(r"(?<!\[\], )\bPath\b", ast.unparse(each.annotation))
    ]


def test_below_the_reader_nothing_takes_the_path_of_a_record() -> None:
    found = {
        f"{path.relative_to(ROOT / 'analysis')}:{name}"
        for path in _sources_below()
        for name in _functions_with_a_path(path.read_text())
    }
    assert found == TAKE_A_PATH.keys()


@pytest.mark.parametrize("parameter", ["record: Path", "*, of: Path | None", "records: Sequence[Path]"])
def test_a_parameter_for_a_path_is_seen(parameter: str) -> None:
    assert _functions_with_a_path(f"def check({parameter}): ...") == ["check"]
    assert _functions_with_a_path("def check(scratch: Callable[[], Path]): ...") == []


def test_the_judge_opens_no_file_of_a_record_past_its_folder() -> None:
    """`RecordFolder` opens regular files alone; a bare path could be a link, a pipe or a folder."""
    # A page is put together from files of the package.
    sources = [path for path in _sources_below() if path.name != "pages.py"]
    found = {str(path.relative_to(ROOT)): _bypasses(path.read_text()) for path in sources}
    assert {name: lines for name, lines in found.items() if lines} == {}


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


_BYPASS = re.compile(
    r"folder / [^)]*\)\.(is_file|is_dir|exists|read_|open)|\bread_(file|text)\((self\.|record\.)?folder /"
)


def _bypasses(text: str) -> list[str]:
    """Return the lines that open or look for a file of a record by its path."""
    return [line for line in text.splitlines() if _BYPASS.search(line)]
