"""librdkafka and Kafka's own Java client against one real node: what they journal is what the node has."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import psutil
import pyarrow.parquet as pq
import pytest
from live.single_node import VERSION, kafka_node
from live.workloads_of_node import Make, await_producers, make, start, start_process
from msgspec.structs import replace
from quick import quick_first

from cluster.runtime.java_programs import ensure_compiler
from cluster.runtime.tool_command import ToolCommand
from ebbtide.errors import Disturbed
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.file import JournalReader
from ebbtide.journal.frames import POLLED, PolledRecords, unpack_polled
from ebbtide.record.clients import read_client_events
from ebbtide.record.files import RecordFolder
from ebbtide.scenario.kafka_settings import ClientLibrary, GroupProtocol
from ebbtide.scenario.model import ConsumerSpec, CopiedOffsets, ProducerSpec
from ebbtide.waiting import wait_until
from workloads.commits import COMMITS_OF_A_CONSUMER
from workloads.config import FINAL_CONSUMER

__all__ = ["kafka_node", "make", "start", "start_process"]
pytestmark = [pytest.mark.live, pytest.mark.beside]


def tools_of(library: ClientLibrary) -> dict[int, ToolCommand]:
    return {1: ensure_compiler(VERSION, lambda event: None)} if library == "java" else {}


TRANSACTIONAL = ProducerSpec(
    id=1, topic="transactions", count=400, client="java", transactional=True, txn_records=20, rate_per_s=200
)
"""A producer with Kafka's own Java client, in transactions of 20 records."""


def _rows(record: Path, file: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(record / f"{file}.parquet").to_pylist()
    return rows


def _polled(record: Path, consumer: int) -> Iterator[PolledRecords]:
    """What a consumer has returned so far."""
    journal = JournalReader(record / "journal" / f"consumer-{consumer}.journal")
    return (unpack_polled(payload) for kind, payload in journal.frames() if kind == POLLED)


def _returned(record: Path, *consumers: int) -> set[tuple[int, int]]:
    """The partitions and offsets that consumers have returned so far."""
    polled = itertools.chain.from_iterable(_polled(record, number) for number in consumers)
    return {(one.partition, int(offset)) for one in polled for offset in one.offsets}


def _sessions(record: Path, consumer: int) -> set[int]:
    """The sessions in which a consumer has returned records so far."""
    return {one.session for one in _polled(record, consumer)}


@pytest.mark.parametrize("library", ["librdkafka", "java"])
def test_every_acked_record_stands_at_the_offset_that_its_row_names(
    make: Make, library: ClientLibrary, tmp_path: Path
) -> None:
    producer = ProducerSpec(id=1, topic=f"all-{library}", count=3_000, keys=5, client=library)
    workload = make([producer], partitions=2, tools=tools_of(library))
    workload.start()
    await_producers(workload)
    assert workload.send_counts().acked == 3_000
    workload.final_read()
    workload.stop()
    assert convert_journals(RecordFolder(tmp_path)) == 0
    sends = _rows(tmp_path, "sends/producer-1")
    read = _rows(tmp_path, f"polls/consumer-{FINAL_CONSUMER}")
    assert {row["status"] for row in sends} == {"acked"}
    assert all(row["sent_ns"] <= row["done_ns"] for row in sends)
    assert {(row["partition"], row["offset"]): row["value"] for row in read} == {
        (row["partition"], row["offset"]): row["value"] for row in sends
    }
    for partition in (0, 1):
        ordered = sorted((row for row in sends if row["partition"] == partition), key=lambda row: row["sequence"])
        assert [row["sequence"] for row in ordered] == list(range(len(ordered)))
        assert [row["offset"] for row in ordered] == list(range(len(ordered)))


@pytest.mark.parametrize("library", ["librdkafka", "java"])
def test_a_stopped_producer_has_an_outcome_for_every_record(make: Make, library: ClientLibrary, tmp_path: Path) -> None:
    producer = ProducerSpec(id=1, topic=f"stopped-{library}", rate_per_s=500, acks="1", client=library)
    workload = make([producer], tools=tools_of(library))
    workload.start()
    wait_until(lambda: workload.acked() >= 500, awaited="500 acked records", timeout_s=30)
    assert [end.is_clean for end in workload.stop_producers()] == [True]
    counts = workload.send_counts()
    assert counts.handed == counts.acked + counts.failed + counts.unknown
    final = workload.final_read().offsets[f"stopped-{library}-0"]
    assert counts.acked <= final.high_watermark <= counts.handed
    workload.stop()


def test_java_transactions_stand_in_the_log_as_their_rows_say(make: Make, tmp_path: Path) -> None:
    producer = replace(TRANSACTIONAL, abort_every=4, fence_every=6)
    reader = ConsumerSpec(id=1, topics=("transactions",), isolation="read_committed")
    workload = make([producer], [reader], partitions=2, tools={1: ensure_compiler(VERSION, lambda event: None)})
    workload.start()
    await_producers(workload)
    ends = workload.final_read().offsets
    workload.stop()
    assert convert_journals(RecordFolder(tmp_path)) == 0
    sends = _rows(tmp_path, "sends/producer-1")
    final = {
        (row["partition"], row["offset"]): row["value"] for row in _rows(tmp_path, f"polls/consumer-{FINAL_CONSUMER}")
    }
    acked = {(row["partition"], row["offset"]): row["value"] for row in sends if row["status"] == "acked"}
    assert acked.items() <= final.items()
    outcomes = {row["txn"]: row["txn_outcome"] for row in sends}
    assert len(outcomes) == 20
    assert set(outcomes.values()) == {"committed", "aborted"}
    committed = {row["value"] for row in sends if row["txn_outcome"] == "committed"}
    assert {row["value"] for row in _rows(tmp_path, "polls/consumer-1")} <= committed
    assert {one.last_stable for one in ends.values()} == {one.high_watermark for one in ends.values()}
    events = (read_client_events(RecordFolder(tmp_path)) or {})["producer-1"]
    assert sum(one.event == "fenced" for one in events) == 3


@pytest.mark.parametrize("offsets", quick_first(get_args(CopiedOffsets)))
def test_a_copier_copies_each_input_once_and_commits_behind_the_last(
    make: Make, offsets: CopiedOffsets, tmp_path: Path
) -> None:
    inputs, copied_to = f"inputs-{offsets}", f"copies-{offsets}"
    copier = replace(
        TRANSACTIONAL, id=2, topic=copied_to, count=None, rate_per_s=None, copies=inputs, group=inputs, offsets=offsets
    )
    reader = ConsumerSpec(id=1, topics=(copied_to,), isolation="read_committed")
    tools = {2: ensure_compiler(VERSION, lambda event: None)}
    workload = make(
        [ProducerSpec(id=1, topic=inputs, count=400, rate_per_s=200), copier], [reader], partitions=2, tools=tools
    )
    workload.start()
    wait_until(
        lambda: workload.check() or workload.acked() == 800,
        awaited="400 inputs and their copies",
        timeout_s=60,
        last_seen=lambda: str(workload.send_counts()),
    )
    assert [end.is_clean for end in workload.stop_producers()] == [True, True]
    workload.final_read()
    workload.stop()
    assert convert_journals(RecordFolder(tmp_path)) == 0
    sent = {(row["partition"], row["offset"]) for row in _rows(tmp_path, "sends/producer-1")}
    copies = _rows(tmp_path, "copies/copies-2")
    assert len(copies) == 400
    assert {(row["partition"], row["offset"]) for row in copies} == sent
    outcomes = {row["value"]: (row["status"], row["txn_outcome"]) for row in _rows(tmp_path, "sends/producer-2")}
    assert set(outcomes.values()) == {("acked", "committed")}
    read = {row["value"] for row in _rows(tmp_path, f"polls/consumer-{FINAL_CONSUMER}") if row["topic"] == copied_to}
    assert read == outcomes.keys() == {row["value"] for row in copies}
    served = _rows(tmp_path, "commits/commits-served")
    assert {row["partition"]: row["offset"] for row in served} == {0: 200, 1: 200}


def test_a_java_client_that_something_outside_killed_is_a_disturbance(make: Make) -> None:
    workload = make([ProducerSpec(id=1, topic="hit", rate_per_s=100, client="java")], tools=tools_of("java"))
    workload.start()
    [tool] = [
        child
        for child in psutil.Process().children(recursive=True)
        if any(word.endswith("RemoteProducer.java") for word in child.cmdline())
    ]
    os.kill(tool.pid, signal.SIGKILL)
    with pytest.raises(Disturbed, match="producer-1"):
        wait_until(lambda: workload.check(), awaited="the producer to end", timeout_s=20)


@pytest.mark.parametrize("protocol", quick_first(sorted(get_args(GroupProtocol), reverse=True)))
def test_members_that_read_with_librdkafka_share_their_commits_and_miss_nothing(
    make: Make, protocol: GroupProtocol, tmp_path: Path
) -> None:
    topic = f"shared-{protocol}"
    members = [
        ConsumerSpec(
            id=number,
            topics=(topic,),
            client="librdkafka",
            group=topic,
            group_protocol=protocol,
            commit_every=100,
            leave_every=None if number == 1 else 400,
        )
        for number in (1, 2)
    ]
    workload = make([ProducerSpec(id=1, topic=topic, rate_per_s=300)], members, partitions=2)
    workload.start()
    # Who leaves and comes again is assigned partitions again. The broker decides how soon, so records come until then.
    # A member commits after some records.
    wait_until(
        lambda: workload.check() or (len(_sessions(tmp_path, 2)) > 1 and len(_returned(tmp_path, 1)) > 200),
        awaited="member 2 to leave, to come again and to read, and member 1 to read",
        timeout_s=60,
        last_seen=lambda: (
            f"sessions {sorted(_sessions(tmp_path, 2))} of member 2, {len(_returned(tmp_path, 1))} records of member 1"
        ),
        poll_s=0.5,
    )
    workload.stop_producers()
    ends = workload.final_read().offsets
    written = {(one, offset) for one in (0, 1) for offset in range(ends[f"{topic}-{one}"].high_watermark)}
    wait_until(
        lambda: written <= _returned(tmp_path, 1, 2),
        awaited=f"{len(written)} records",
        timeout_s=60,
        last_seen=lambda: str(len(_returned(tmp_path, 1, 2))),
        poll_s=0.5,
    )
    workload.stop()
    convert_journals(RecordFolder(tmp_path))
    commits = [row for number in (1, 2) for row in _rows(tmp_path, f"commits/commits-{number}")]
    served = [row for row in _rows(tmp_path, "commits/commits-served") if row["commit"] is not None]
    assert {row["status"] for row in commits} <= {"acked", "unknown", "failed"}
    acked = {row["commit"] for row in commits if row["status"] == "acked"}
    assert {commit // COMMITS_OF_A_CONSUMER for commit in acked} == {1, 2}
    assert {row["partition"] for row in served} == {0, 1}
    assert acked >= {row["commit"] for row in served}
