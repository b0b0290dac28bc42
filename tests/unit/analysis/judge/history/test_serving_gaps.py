"""How long no broker served a partition that clients asked for, from the rows of hand-made records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judge_records import ns
from records import as_record

from analysis.judge.history.service_cells import ServiceCells
from analysis.judge.history.spells import unserved_spells
from ebbtide.record.tables import TABLES

EVERY_S = 0.1


def sent(sent_s: float, done_s: float | None, status: str = "acked", acks: int = -1) -> tuple[str, dict[str, Any]]:
    usual = {"value": 1, "producer": 1, "sequence": 0, "acks": acks, "status": status}
    return "sends", {**usual, "sent_ns": ns(sent_s), "done_ns": None if done_s is None else ns(done_s)}


def polled(at_s: float) -> tuple[str, dict[str, Any]]:
    return "polls", {
        "offset": 0,
        "consumer": 1,
        "session": 1,
        "isolation": "read_uncommitted",
        "polled_ns": ns(at_s),
    }


def answered(at_s: float, *, asked_s: float | None = None, hw: int = 5) -> tuple[str, dict[str, Any]]:
    asked = at_s - 0.001 if asked_s is None else asked_s
    return "watermarks", {
        "broker": 1,
        "high_watermark": hw,
        "source": "list_offsets",
        "asked_ns": ns(asked),
        "at_ns": ns(at_s),
    }


def spells(
    record: Path, *rows: tuple[str, dict[str, Any]], every_s: float = EVERY_S, until_s: float = 1
) -> list[tuple[float, float, bool]]:
    """The spells of t-0: from and to in seconds, and whether the end is open.

    A sampler got answers every so often until a time.
    """
    rows = (*(answered(until_s - every_s * at) for at in range(50)), *rows)
    for table in ("sends", "polls", "watermarks"):
        whole = [
            dict.fromkeys(TABLES[table].names) | {"topic": "t", "partition": 0} | row
            for name, row in rows
            if name == table
        ]
        pq.write_table(pa.Table.from_pylist(whole, schema=TABLES[table]), record / f"{table}.parquet")
    found = unserved_spells(as_record(record).seen(ServiceCells))["t", 0]
    assert not isinstance(found, str), found
    return [(round((one.from_ns - ns(0)) / 1e9, 2), round((one.to_ns - ns(0)) / 1e9, 2), one.is_open) for one in found]


def test_a_record_that_waits_while_nobody_answers_shows_that_nobody_served(tmp_path: Path) -> None:
    assert spells(tmp_path, sent(10.2, 21), answered(21.05)) == [(10.2, 21, False)]


@pytest.mark.parametrize("service", [answered(15), polled(15), sent(14.99, 15)], ids=["answer", "poll", "ack"])
def test_every_service_ends_a_spell(tmp_path: Path, service: tuple[str, dict[str, Any]]) -> None:
    rows = [answered(10), sent(10.2, 21), service]
    assert spells(tmp_path, *rows) == [(10.2, 15, False), (15, 21, False)]


def test_a_time_in_which_nobody_asked_is_no_spell(tmp_path: Path) -> None:
    assert spells(tmp_path, answered(30), sent(40, 40.01), polled(60)) == []


def test_the_interval_of_the_sampler_is_no_spell_even_if_it_is_long(tmp_path: Path) -> None:
    assert spells(tmp_path, every_s=5, until_s=100) == []


@pytest.mark.parametrize("every_s", [0.1, 1, 5])
def test_a_send_that_waits_while_the_sampler_is_answered_is_no_spell(tmp_path: Path, every_s: float) -> None:
    assert spells(tmp_path, sent(-100, 50), every_s=every_s, until_s=50) == []


def test_a_question_that_was_answered_late_waited_as_long(tmp_path: Path) -> None:
    assert spells(tmp_path, answered(5, asked_s=1.5)) == [(1.5, 5, False)]


def test_between_two_failed_sends_nobody_asked(tmp_path: Path) -> None:
    rows = [sent(2, 5, "failed"), sent(9, 12, "failed"), answered(30)]
    assert spells(tmp_path, *rows) == [(2, 5, False), (9, 12, False)]


def test_what_lies_before_the_first_service_is_the_start_of_the_clients(tmp_path: Path) -> None:
    assert spells(tmp_path, sent(-50, -4), until_s=1) == []


def test_a_spell_that_no_service_ends_is_open(tmp_path: Path) -> None:
    assert spells(tmp_path, sent(2, 9, "failed"), sent(8, None, "unknown")) == [(2, 9, True)]


def test_a_send_without_acks_asks_nobody_and_shows_no_service(tmp_path: Path) -> None:
    assert spells(tmp_path, sent(2, 9, acks=1), sent(5, 5, acks=0)) == [(2, 9, False)]


def test_an_answer_without_a_watermark_is_no_service(tmp_path: Path) -> None:
    assert spells(tmp_path, sent(2, 9), answered(5, hw=-1)) == [(2, 9, False)]


def test_a_partition_that_no_sampler_was_answered_for_is_not_known(tmp_path: Path) -> None:
    name, row = sent(2, 9)
    whole = dict.fromkeys(TABLES[name].names) | {"topic": "t", "partition": 0} | row
    pq.write_table(pa.Table.from_pylist([whole], schema=TABLES[name]), tmp_path / f"{name}.parquet")
    assert unserved_spells(as_record(tmp_path).seen(ServiceCells)) == {("t", 0): "nobody asked for its HW all the time"}
