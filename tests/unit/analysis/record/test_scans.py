"""A scan takes each row of its record once, however often the tables are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from judge_records import Story, ns
from records import as_record

from analysis.record.record import Record
from analysis.record.scans import Rows, Scan, feed_table
from ebbtide.errors import UsageError


class _CountValues(Scan[int]):
    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {"sends": ("value",), "commits": ("group",)}

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._count = 0

    def add(self, rows: Rows) -> None:
        self._count += len(rows.column("value" if rows.table == "sends" else "group"))

    def result(self) -> int:
        return self._count


@pytest.fixture
def record(tmp_path: Path) -> Record:
    story = Story(tmp_path)
    story.tables["sends"] = [
        {"topic": "t", "partition": 0, "value": value, "producer": 1, "sequence": value, "acks": -1, "status": "acked"}
        | {"offset": value, "sent_ns": ns(1), "done_ns": ns(2)}
        for value in range(7)
    ]
    row = {"group": "g", "topic": "t", "partition": 0, "offsets_partition": 0, "status": "acked"}
    story.tables["commits"] = [row | {"asked_ns": ns(at), "done_ns": ns(at)} for at in (3, 4)]
    story.write()
    found = as_record(tmp_path)
    found.asked = (_CountValues,)
    return found


class _Refuse(Scan[None]):
    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {"sends": ("value",), "commits": ("group",)}

    def add(self, rows: Rows) -> None:
        raise UsageError("damaged", where=rows.table, got="damage")


def test_a_table_that_is_read_again_gives_a_scan_nothing(record: Record) -> None:
    for _ in range(2):
        feed_table(record, "sends", record.scans())
    assert record.seen(_CountValues) == 7 + 2
    feed_table(record, "commits", record.scans())
    assert record.seen(_CountValues) == 7 + 2


@pytest.mark.parametrize("refused", ["sends", "commits"])
def test_a_scan_begins_anew_where_reading_failed(record: Record, refused: str) -> None:
    feed_table(record, "commits" if refused == "sends" else "sends", record.scans())
    with pytest.raises(UsageError, match="damaged"):
        feed_table(record, refused, [*record.scans(), _Refuse(record)])
    assert record.seen(_CountValues) == 7 + 2
