"""Coverage facts of clients that steps took down: what they left unanswered, and what their groups got again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from records import as_record

from analysis.judge.coverage.restart_facts import count
from analysis.judge.history.steps import client_downs
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import FinalOffsets, Manifest, ProducerSetup, write_manifest
from ebbtide.record.steps import StepEntry, write_steps
from ebbtide.record.tables import POLLS, SENDS

KILLED = StepEntry(index=0, step="kill-client", fired_ns=5, effect_ns=6, parameters={"client": "producer(1)"})
GROUP = """
[[consumers]]
id = 1
topics = ["t"]
group = "g"
[[consumers]]
id = 2
topics = ["t"]
[[consumers]]
id = 3
topics = ["t"]
group = "g"
"""


def send(value: int, producer: int = 1, error: str | None = "UNRESOLVED") -> dict[str, Any]:
    row = {"topic": "t", "partition": 0, "value": value, "producer": producer, "sequence": value, "acks": -1}
    return dict.fromkeys(SENDS.names) | row | {"status": "unknown", "error": error, "sent_ns": 1}


def poll(offset: int, consumer: int, session: int = 1) -> dict[str, Any]:
    row = {"topic": "t", "partition": 0, "offset": offset, "value": offset, "consumer": consumer, "session": session}
    return dict.fromkeys(POLLS.names) | row | {"isolation": "read_uncommitted", "polled_ns": 1}


def facts(
    folder: Path,
    sends: Sequence[dict[str, Any]],
    polls: Sequence[dict[str, Any]],
    steps: Sequence[StepEntry] = (KILLED,),
    log_start: int = 0,
) -> dict[str, int]:
    offsets = {"t-0": FinalOffsets(log_start=log_start, high_watermark=9)}
    setups = {"1": ProducerSetup(acks=-1), "2": ProducerSetup(acks=-1)}
    manifest = Manifest(run_id="r", producers=setups, final_consumer=0, final_offsets=offsets)
    write_manifest(RecordFolder(folder), manifest)
    write_steps(RecordFolder(folder), list(steps))
    (folder / "scenario.toml").write_text(GROUP)
    pq.write_table(pa.Table.from_pylist(list(sends), schema=SENDS), folder / "sends.parquet")
    pq.write_table(pa.Table.from_pylist(list(polls), schema=POLLS), folder / "polls.parquet")
    return dict(count(as_record(folder)))


def test_what_a_killed_producer_left_unanswered_is_counted_with_what_no_log_has(tmp_path: Path) -> None:
    sends = [send(1), send(2), send(3), send(4, error="REQUEST_TIMED_OUT"), send(5, producer=2)]
    found = facts(tmp_path, sends, [poll(2, consumer=0), poll(3, consumer=1)])
    assert (found["records-left-unanswered"], found["records-left-unanswered-gone"]) == (3, 2)


def test_a_producer_that_no_step_took_down_left_nothing(tmp_path: Path) -> None:
    found = facts(tmp_path, [send(1)], [poll(2, consumer=0)], steps=())
    assert (found["records-left-unanswered"], found["records-left-unanswered-gone"]) == (0, 0)


def test_below_a_final_log_start_nobody_knows_what_is_gone(tmp_path: Path) -> None:
    found = facts(tmp_path, [send(1)], [poll(2, consumer=0)], log_start=1)
    assert found["records-left-unanswered"] == 1
    assert "records-left-unanswered-gone" not in found


def test_a_group_got_again_what_a_member_of_it_had_got(tmp_path: Path) -> None:
    first = [poll(offset, consumer=1) for offset in range(130)]
    again = [poll(offset, consumer=1, session=1_000_001) for offset in range(60, 140)]
    other = [poll(offset, consumer=3) for offset in range(100, 150)]
    alone = [poll(offset, consumer=2, session=session) for session in (1, 2) for offset in range(9)]
    assert facts(tmp_path, [], [*first, *again, *other, *alone])["records-got-again"] == 70 + 40


def test_a_client_is_down_from_its_kill_until_it_works_again() -> None:
    steps = [
        KILLED,
        StepEntry(index=1, step="stop-client", fired_ns=7, effect_ns=8, parameters={"client": "consumer(1)"}),
        StepEntry(index=2, step="start-client", fired_ns=9, effect_ns=10, parameters={"client": "producer(1)"}),
        StepEntry(index=3, step="kill-client", fired_ns=11, effect_ns=12, parameters={"client": "nobody"}),
    ]
    assert [(str(one.client), one.from_ns, one.to_ns) for one in client_downs(steps)] == [
        ("producer(1)", 5, 10),
        ("consumer(1)", 7, None),
    ]
