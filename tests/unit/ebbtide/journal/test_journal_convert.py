"""Journals into tables: statuses, torn tails, killed writers, and conversions that are cut short or repeated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.errors import HarnessError
from ebbtide.journal.convert import JOURNAL_DIR, ROW_GROUP_ROWS, LastAnswers, convert_journals
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.frames import (
    STATUSES,
    AnsweredSends,
    PolledRecords,
    pack_answered,
    pack_handed,
    pack_polled,
    pack_watermarks,
)
from ebbtide.journal.outcomes import Outcome
from ebbtide.record.files import RecordFolder
from ebbtide.record.tables import POLLS, SENDS, WATERMARKS
from ebbtide.waiting import wait_until

SENDS_HEADER = JournalHeader(table="sends", id=1, topics=("t",), acks=-1)


def _writer(record: Path, name: str = "producer-1", header: JournalHeader = SENDS_HEADER) -> JournalWriter:
    (record / JOURNAL_DIR).mkdir(exist_ok=True)
    return JournalWriter(record / JOURNAL_DIR / f"{name}.journal", header)


def _handed_frame(first: int, count: int, partition: int = 0) -> bytes:
    numbers = range(first, first + count)
    return pack_handed(partition, first, array("q", [n for i in numbers for n in (1000 + i, 10 * i)]))


def _answer(first: int, count: int, status: Outcome, base: int = -1, error: str = "", partition: int = 0) -> bytes:
    code = STATUSES.index(status)
    return pack_answered(
        AnsweredSends(
            partition=partition,
            first_sequence=first,
            count=count,
            status=code,
            base_offset=base,
            done_ns=7,
            error=error,
        )
    )


def _sends(record: Path) -> list[dict[str, Any]]:
    (file,) = RecordFolder(record).files("sends")
    table = pq.read_table(file)
    assert table.schema.equals(SENDS)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _converted(record: Path, *frames: bytes) -> list[dict[str, Any]]:
    _writer(record).write([*frames])
    convert_journals(RecordFolder(record))
    return _sends(record)


def test_a_send_has_the_outcome_of_its_batch_and_its_own_offset(tmp_path: Path) -> None:
    answers = _answer(0, 2, "acked", base=40), _answer(2, 1, "failed", error="X")
    rows = _converted(tmp_path, _handed_frame(0, 3), *answers)
    assert [(row["sequence"], row["status"], row["offset"], row["error"]) for row in rows] == [
        (0, "acked", 40, None),
        (1, "acked", 41, None),
        (2, "failed", None, "X"),
    ]
    assert rows[1] == {
        "topic": "t",
        "partition": 0,
        "value": 1001,
        "producer": 1,
        "sequence": 1,
        "acks": -1,
        "status": "acked",
        "offset": 41,
        "error": None,
        "txn": None,
        "txn_outcome": None,
        "sent_ns": 10,
        "done_ns": 7,
    }


def test_a_send_without_an_answer_is_unknown(tmp_path: Path) -> None:
    rows = _converted(tmp_path, _handed_frame(0, 2), _answer(0, 1, "acked", base=0))
    assert [(row["status"], row["error"], row["done_ns"]) for row in rows] == [
        ("acked", None, 7),
        ("unknown", "UNRESOLVED", None),
    ]


def test_of_two_answers_for_one_send_the_later_counts(tmp_path: Path) -> None:
    first, later = _answer(0, 4, "unknown", error="U"), _answer(1, 2, "acked", base=9)
    rows = _converted(tmp_path, _handed_frame(0, 4), first, later)
    assert [row["status"] for row in rows] == ["unknown", "acked", "acked", "unknown"]
    assert [row["offset"] for row in rows] == [None, 9, 10, None]


def test_a_frame_that_was_written_twice_gives_each_row_once(tmp_path: Path) -> None:
    again = [_handed_frame(0, 3), _handed_frame(0, 3), _handed_frame(2, 3), _handed_frame(0, 2, partition=1)]
    rows = _converted(tmp_path, *again)
    assert [row["sequence"] for row in rows if row["partition"] == 0] == list(range(5))
    assert [row["sequence"] for row in rows if row["partition"] == 1] == [0, 1]


def test_partitions_are_answered_apart(tmp_path: Path) -> None:
    handed = _handed_frame(0, 1), _handed_frame(0, 1, partition=1)
    rows = _converted(tmp_path, *handed, _answer(0, 1, "acked", base=5, partition=1))
    assert [row["status"] for row in rows] == ["unknown", "acked"]


def test_polls_carry_the_offset_before_them_and_null_for_what_is_not_ours(tmp_path: Path) -> None:
    header = JournalHeader(table="polls", id=4, topics=("a", "b"), isolation="read_committed")
    polled = {"topic": 1, "partition": 2, "session": 3, "polled_ns": 6}
    arrays = [array("q", numbers) for numbers in ([7, 9], [100, -1], [5, -1])]
    frame = pack_polled(PolledRecords(**polled, previous=-1, offsets=arrays[0], values=arrays[1], epochs=arrays[2]))
    _writer(tmp_path, "consumer-4", header).write([frame])
    convert_journals(RecordFolder(tmp_path))
    (file,) = RecordFolder(tmp_path).files("polls")
    table = pq.read_table(file)
    assert table.schema.equals(POLLS)
    rows = table.to_pylist()
    assert rows[0]["topic"] == "b"
    assert rows[0]["isolation"] == "read_committed"
    assert [(row["offset"], row["value"], row["prev_offset"], row["leader_epoch"]) for row in rows] == [
        (7, 100, None, 5),
        (9, None, 7, None),
    ]


def test_watermarks_say_who_answered_and_when(tmp_path: Path) -> None:
    writer = _writer(tmp_path, "sampler", JournalHeader(table="watermarks", topics=("t",)))
    writer.write([pack_watermarks(array("q", [0, 1, 2, 3, 44, 5, 6, 0, 0, 1, -1, 0, 7, 8]))])
    convert_journals(RecordFolder(tmp_path))
    (file,) = RecordFolder(tmp_path).files("watermarks")
    table = pq.read_table(file)
    assert table.schema.equals(WATERMARKS)
    first, second = table.to_pylist()
    assert first == {
        "topic": "t",
        "partition": 1,
        "broker": 2,
        "leader_epoch": 3,
        "high_watermark": 44,
        "log_end_offset": None,
        "source": "list_offsets",
        "asked_ns": 5,
        "at_ns": 6,
    }
    assert second["leader_epoch"] is None


def test_a_torn_tail_is_reported_and_the_rows_before_it_are_kept(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    writer.write([_handed_frame(0, 5)])
    with writer.path.open("ab") as file:
        file.write(_handed_frame(5, 5)[:-1])
    assert convert_journals(RecordFolder(tmp_path)) == len(_handed_frame(5, 5)) - 1
    assert [row["sequence"] for row in _sends(tmp_path)] == list(range(5))


def test_a_journal_without_its_header_becomes_an_empty_table(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    writer.path.write_bytes(b"EBB")
    assert convert_journals(RecordFolder(tmp_path)) == 3
    assert _sends(tmp_path) == []


def test_converting_again_changes_nothing(tmp_path: Path) -> None:
    rows = _converted(tmp_path, _handed_frame(0, 3))
    assert len(rows) == 3
    assert convert_journals(RecordFolder(tmp_path)) == 0
    assert _sends(tmp_path) == rows


def test_a_conversion_that_was_cut_short_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "sends").mkdir()
    (tmp_path / "sends" / "producer-1.parquet.part").write_bytes(b"half a table")
    assert len(_converted(tmp_path, _handed_frame(0, 3))) == 3
    assert not list(tmp_path.rglob("*.part"))


def test_a_journal_stays_until_its_table_is_whole(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    writer.write([_handed_frame(0, 3)])
    (tmp_path / "sends").write_text("in the way")
    with pytest.raises(HarnessError, match="and is kept"):
        convert_journals(RecordFolder(tmp_path))
    assert writer.path.is_file()


def test_a_journal_goes_as_soon_as_its_own_table_is_whole(tmp_path: Path) -> None:
    converted = _writer(tmp_path)
    converted.write([_handed_frame(0, 3)])
    strange = _writer(tmp_path, "zebra", JournalHeader(table="zebras", topics=()))
    with pytest.raises(HarnessError, match="no table of the record"):
        convert_journals(RecordFolder(tmp_path))
    assert not converted.path.exists()
    assert strange.path.is_file()
    assert len(_sends(tmp_path)) == 3


def test_tables_are_written_in_bounded_row_groups(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    for first in range(0, 250_000, 50_000):
        writer.write([_handed_frame(first, 50_000)])
    convert_journals(RecordFolder(tmp_path))
    (file,) = RecordFolder(tmp_path).files("sends")
    metadata = pq.ParquetFile(file).metadata
    assert [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)] == [
        ROW_GROUP_ROWS,
        ROW_GROUP_ROWS,
        50_000,
    ]
    assert metadata.row_group(0).column(0).compression == "ZSTD"


_ENDLESS = """
import sys
from array import array
from pathlib import Path
from ebbtide.journal.frames import AnsweredSends, pack_answered, pack_handed
from ebbtide.journal.file import JournalHeader, JournalWriter

writer = JournalWriter(Path(sys.argv[1]), JournalHeader(table="sends", id=1, topics=("t",), acks=-1))
first = 0
while True:
    rows = array("q", [number for i in range(first, first + 997) for number in (i, i)])
    acked = dict(first_sequence=first, count=900, status=0, base_offset=first, done_ns=1, error="")
    answer = AnsweredSends(partition=0, **acked)
    writer.write([pack_handed(0, first, rows), pack_answered(answer)])
    first += 997
"""


def test_the_journal_of_a_writer_killed_midway_converts(tmp_path: Path) -> None:
    (tmp_path / JOURNAL_DIR).mkdir()
    path = tmp_path / JOURNAL_DIR / "producer-1.journal"
    with subprocess.Popen([sys.executable, "-c", _ENDLESS, str(path)]) as process:
        wait_until(lambda: path.exists() and path.stat().st_size > 1 << 20, awaited="a megabyte", timeout_s=20)
        process.send_signal(signal.SIGKILL)
    size = path.stat().st_size
    torn_bytes = convert_journals(RecordFolder(tmp_path))
    rows = _sends(tmp_path)
    assert torn_bytes < size - len(rows) * 16
    assert [row["sequence"] for row in rows] == list(range(len(rows)))
    assert all((row["status"] == "acked") == (row["sequence"] % 997 < 900) for row in rows[: -2 * 997])
    assert all(row["offset"] == row["sequence"] for row in rows if row["status"] == "acked")
    assert not os.path.exists(path)


ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=25)


@given(ranges, st.integers(0, 70), st.integers(0, 40))
def test_the_last_answer_to_a_send_counts_as_in_one_dictionary(
    batches: list[tuple[int, int]], first: int, count: int
) -> None:
    answers = [
        AnsweredSends(partition=0, first_sequence=at, count=size, status=0, base_offset=number, done_ns=0, error="")
        for number, (at, size) in enumerate(batches)
    ]
    model: dict[int, AnsweredSends] = {}
    for answer in answers:
        model |= dict.fromkeys(range(answer.first_sequence, answer.first_sequence + answer.count), answer)
    covered: list[AnsweredSends | None] = []
    for start, length, found in LastAnswers(answers).cover(first, count):
        assert start == first + len(covered)
        covered += [found] * length
    assert covered == [model.get(at) for at in range(first, first + count)]
