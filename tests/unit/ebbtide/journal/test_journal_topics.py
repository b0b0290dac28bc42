"""Journals of a run whose topic was deleted and made again: each row has the name of its own topic."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ebbtide.journal.convert import JOURNAL_DIR, convert_journals
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.frames import (
    AnsweredSends,
    pack_answered,
    pack_handed,
    pack_watermarks,
)
from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import StepEntry, write_steps

ASKED_NS, KNOWN_NS = 100, 110
STEP = StepEntry(
    index=0,
    step="create-topic",
    parameters={"topic": "t"},
    proof={
        "answer": "NONE",
        "since": 5,
        "asked_ns": ASKED_NS,
        "known_ns": KNOWN_NS,
        "unaware": [],
        "record": {"topic_id": "B"},
    },
)


def write_journal(record: Path, name: str, header: JournalHeader, *frames: bytes) -> None:
    (record / JOURNAL_DIR).mkdir(exist_ok=True)
    JournalWriter(record / JOURNAL_DIR / f"{name}.journal", header).write(list(frames))


def write_sends(record: Path, *sends: tuple[int, int, int | None]) -> None:
    """Sends of value, sent_ns and done_ns (None: without an answer), at offsets from 0 on."""
    frames = []
    for sequence, (value, sent_ns, done_ns) in enumerate(sends):
        frames.append(pack_handed(0, sequence, array("q", [value, sent_ns])))
        if done_ns is not None:
            answer = AnsweredSends(
                partition=0, first_sequence=sequence, count=1, status=0, base_offset=sequence, done_ns=done_ns, error=""
            )
            frames.append(pack_answered(answer))
    header = JournalHeader(table="sends", id=1, topics=("t",), acks=-1)
    write_journal(record, "producer-1", header, *frames)


def converted(record: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    convert_journals(RecordFolder(record))
    rows = [row for file in RecordFolder(record).files(table) for row in pq.read_table(file).to_pylist()]
    return [tuple(row[column] for column in columns) for row in rows]


SENDS = ((1, 10, 20), (2, 90, 105), (3, 90, 105), (4, 90, None), (5, 120, 130))


def test_without_such_a_step_all_rows_keep_the_name_of_their_topic(tmp_path: Path) -> None:
    write_sends(tmp_path, *SENDS)
    assert {topic for (topic,) in converted(tmp_path, "sends", "topic")} == {"t"}


def test_a_hw_that_either_topic_may_have_had_has_no_leader_epoch(tmp_path: Path) -> None:
    write_steps(RecordFolder(tmp_path), [STEP])
    # topic, partition, broker, leader epoch, HW, asked, answered
    marks = [(0, 0, 1, 4, 50, 10, 20), (0, 0, 1, 4, 50, 90, 105), (0, 0, 1, 0, 3, 120, 130)]
    header = JournalHeader(table="watermarks", id=0, topics=("t",))
    write_journal(tmp_path, "sampler", header, pack_watermarks(array("q", [one for row in marks for one in row])))
    expected = [("t@1", 4), ("t@?", None), ("t", 0)]
    assert converted(tmp_path, "watermarks", "topic", "leader_epoch") == expected
