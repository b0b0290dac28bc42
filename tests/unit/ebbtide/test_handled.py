"""What a test handled is noted by the test and by its programs, and becomes a table of the record."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka.consumer.fetcher import ConsumerRecord
from records import RecordBuilder

from ebbtide import handled
from ebbtide.errors import HarnessError, UsageError
from ebbtide.handled import HANDLED_FILE, HandledRecords, environment_of
from ebbtide.journal.convert import convert_journals
from ebbtide.record.files import JOURNAL_DIR, RecordFolder
from ebbtide.record.reading import open_run

BASE_NS = 1_000_000_000_000


@pytest.fixture
def record(tmp_path: Path) -> Path:
    folder = RecordBuilder().send(1).write(tmp_path / "run")
    (folder / JOURNAL_DIR).mkdir()
    return folder


def rows(record: Path) -> list[dict[str, object]]:
    convert_journals(RecordFolder(record))
    return list(open_run(str(record)).handled().to_pylist())


def test_records_of_each_library_and_plain_places_are_noted_with_the_time_of_the_run(record: Path) -> None:
    noted, before_ns = HandledRecords(record, BASE_NS), time.monotonic_ns() + BASE_NS
    rest = dict.fromkeys(ConsumerRecord._fields) | {"topic": "orders", "partition": 0, "offset": 1}
    noted.note(ConsumerRecord(**rest))
    noted.note(SimpleNamespace(topic=lambda: "orders", partition=lambda: 0, offset=lambda: 2), group="g")
    noted.note(("orders", 1, 3))
    found = rows(record)
    assert [(one["topic"], one["partition"], one["offset"], one["group"]) for one in found] == [
        ("orders", 0, 1, None),
        ("orders", 0, 2, "g"),
        ("orders", 1, 3, None),
    ]
    assert all(before_ns <= int(str(one["at_ns"])) <= time.monotonic_ns() + BASE_NS for one in found)
    assert not (record / JOURNAL_DIR).exists()


def test_a_program_notes_by_what_its_environment_has(record: Path) -> None:
    code = "from ebbtide.handled import handled\nfor offset in range(3): handled(('orders', 0, offset))"
    told = {**os.environ, **environment_of(record, BASE_NS)}
    programs = [subprocess.Popen([sys.executable, "-c", code], env=told) for _ in range(2)]
    assert [one.wait(30) for one in programs] == [0, 0]
    assert sorted(int(str(one["offset"])) for one in rows(record)) == [0, 0, 1, 1, 2, 2]


def test_a_line_of_another_language_may_lack_group_and_time(record: Path) -> None:
    (record / JOURNAL_DIR / HANDLED_FILE).write_text('{"topic": "orders", "partition": 0, "offset": 7}\n')
    assert rows(record) == [{"topic": "orders", "partition": 0, "offset": 7, "group": None, "at_ns": None}]


@pytest.mark.parametrize(
    "line",
    [
        b'{"topic": "orders"}',
        b'{"topic": "\xff", "partition": 0, "offset": 7}',
        b'{"topic": "orders", "partition": 4294967296, "offset": 7}',
        b'{"topic": "orders", "partition": 0, "offset": 7, "at_ns": 100000000000000000000}',
    ],
)
def test_a_line_that_is_something_else_is_an_error_with_its_place(record: Path, line: bytes) -> None:
    (record / JOURNAL_DIR / HANDLED_FILE).write_bytes(line + b"\n")
    with pytest.raises(HarnessError) as error:
        rows(record)
    assert "handled.jsonl, line 1" in error.value.render()


@pytest.mark.parametrize("what", ["orders-0:12", ("orders", 0), ("orders", "0", "1"), None])
def test_what_is_no_record_is_refused(record: Path, what: object) -> None:
    with pytest.raises(UsageError, match="handled needs a record"):
        HandledRecords(record, BASE_NS).note(what)


def test_after_the_run_nothing_can_be_noted(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="cannot note"):
        HandledRecords(tmp_path / "gone", BASE_NS)


def test_a_program_that_no_test_started_learns_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EBBTIDE_HANDLED", raising=False)
    handled._of_environment.cache_clear()
    with pytest.raises(UsageError, match="nobody asks which records were handled"):
        handled.handled(("orders", 0, 1))
