"""The clients against one real Kafka node: what they journal is what the node did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest
from live.single_node import SingleNode, kafka_node
from live.workloads_of_node import Make, await_producers, make, start, start_process

from cluster.kafka_api.connection import LATEST, BrokerConnection
from cluster.runtime.base import ClientProcess, StartClient
from ebbtide.errors import HarnessError
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.file import JournalReader
from ebbtide.journal.frames import POLLED, PolledRecords, unpack_polled
from ebbtide.journal.payload import value_at
from ebbtide.record.files import RecordFolder
from ebbtide.scenario.kafka_settings import ConsumerLibrary
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec
from ebbtide.waiting import wait_until
from workloads import group
from workloads.config import FINAL_CONSUMER, NewTopic
from workloads.forked_clients import StartProcess
from workloads.process import ClientState
from workloads.send_account import SendCounts
from workloads.topics import TopicSettingsRefused, create_topics

__all__ = ["kafka_node", "make", "start", "start_process"]
CONSUMERS: dict[int, ConsumerLibrary] = dict(enumerate(get_args(ConsumerLibrary), 1))
"""A consumer of each library, by its id."""

pytestmark = [pytest.mark.live, pytest.mark.beside]


def _rows(record: Path, file: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(record / f"{file}.parquet").to_pylist()
    return rows


def _polls(record: Path, consumer: int) -> Iterator[PolledRecords]:
    """What a consumer has returned so far."""
    journal = JournalReader(record / "journal" / f"consumer-{consumer}.journal")
    return (unpack_polled(payload) for kind, payload in journal.frames() if kind == POLLED)


def _polled_count(record: Path, consumer: int = 1) -> int:
    """How many records it has returned, repeated reads included."""
    return sum(len(one.offsets) for one in _polls(record, consumer))


def _last_polled(record: Path, consumer: int) -> int:
    """The offset of the last one, of a topic with one partition."""
    return [int(one.offsets[-1]) for one in _polls(record, consumer)][-1]


def _short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers give up within seconds, so that the tests of giving up take seconds."""
    made = group.ProducerConfig

    def config(**settings: Any) -> Any:
        return made(**settings, request_timeout_ms=1_000, delivery_timeout_ms=2_500)

    monkeypatch.setattr(group, "ProducerConfig", config)


def test_a_hundred_thousand_records_at_full_speed_are_journalled_read_and_final(make: Make, tmp_path: Path) -> None:
    workload = make(
        [ProducerSpec(id=1, topic="full", count=100_000)], [ConsumerSpec(id=1, topics=("full",))], partitions=2
    )
    workload.start()
    await_producers(workload)
    assert workload.send_counts().acked == workload.acked() == 100_000
    wait_until(
        lambda: [workload.high_watermark("full", number) for number in (0, 1)] == [50_000, 50_000],
        awaited="the sampler to see the HW",
        timeout_s=60,
    )
    assert [end.is_clean for end in workload.stop_producers()] == [True]
    final = workload.final_read().offsets
    wait_until(lambda: _polled_count(tmp_path) == 100_000, awaited="the consumer to have read all", timeout_s=30)
    assert {key: (end.log_start, end.high_watermark) for key, end in final.items()} == {
        "full-0": (0, 50_000),
        "full-1": (0, 50_000),
    }
    assert all(end.is_clean for end in workload.stop())
    assert convert_journals(RecordFolder(tmp_path)) == 0
    assert not (tmp_path / "journal").exists()

    sends = _rows(tmp_path, "sends/producer-1")
    by_place = {(row["partition"], row["offset"]): row["value"] for row in sends}
    assert len(by_place) == 100_000
    assert all(row["status"] == "acked" and row["sent_ns"] <= row["done_ns"] for row in sends)
    assert all(row["value"] == value_at(1, 2 * row["sequence"] + row["partition"]) for row in sends)
    for reader in (FINAL_CONSUMER, 1):
        polls = _rows(tmp_path, f"polls/consumer-{reader}")
        assert {(row["partition"], row["offset"]): row["value"] for row in polls} == by_place
        assert len(polls) == 100_000
        assert {row["session"] for row in polls} == {1}
        assert all(row["prev_offset"] == (row["offset"] - 1 if row["offset"] else None) for row in polls)
        assert {row["leader_epoch"] for row in polls} == {0}
    marks = _rows(tmp_path, "watermarks/sampler")
    assert {row["broker"] for row in marks} == {1}
    assert {row["leader_epoch"] for row in marks} <= {0, None}
    assert max(row["high_watermark"] for row in marks) == 50_000


def test_each_kind_of_acks_at_a_rate_until_it_is_stopped(make: Make, tmp_path: Path) -> None:
    kinds = {1: "0", 2: "1", 3: "all"}
    workload = make([ProducerSpec(id=id_, topic="rates", acks=acks, rate_per_s=200) for id_, acks in kinds.items()])
    workload.start()
    wait_until(lambda: workload.send_counts().handed >= 1200, awaited="two seconds of each producer", timeout_s=60)
    assert [end.state for end in workload.stop_producers()] == [ClientState.STOPPED] * 3
    workload.final_read()
    workload.stop()
    convert_journals(RecordFolder(tmp_path))
    final = {row["value"] for row in _rows(tmp_path, "polls/consumer-0")}
    for id_, acks in kinds.items():
        sends = _rows(tmp_path, f"sends/producer-{id_}")
        span_s = (sends[-1]["sent_ns"] - sends[0]["sent_ns"]) / 1e9
        assert span_s > 1
        assert abs(len(sends) - 200 * span_s) <= 50
        assert {row["status"] for row in sends} == {"acked"}
        assert all((row["offset"] is None) == (acks == "0") for row in sends)
        assert {row["value"] for row in sends} <= final
    assert len(final) == workload.send_counts().handed


def test_what_the_leader_refuses_before_the_append_is_failed_and_not_there(make: Make, tmp_path: Path) -> None:
    workload = make(
        [ProducerSpec(id=1, topic="refused", count=50, payload_bytes=500)], config={"max.message.bytes": "300"}
    )
    workload.start()
    wait_until(workload.are_producers_done, awaited="every record to be refused", timeout_s=20)
    assert workload.send_counts() == SendCounts(handed=50, failed=50)
    assert workload.final_read().offsets["refused-0"].high_watermark == 0
    workload.stop()
    convert_journals(RecordFolder(tmp_path))
    assert {row["error"] for row in _rows(tmp_path, "sends/producer-1")} == {"MESSAGE_TOO_LARGE"}


def test_a_silent_leader_makes_what_was_sent_unknown_and_what_never_left_failed(
    make: Make, kafka_node: SingleNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _short_timeouts(monkeypatch)
    workload = make([ProducerSpec(id=1, topic="silent", rate_per_s=1_000)], [ConsumerSpec(id=1, topics=("silent",))])
    workload.start()
    wait_until(lambda: workload.acked() >= 100, awaited="100 acked", timeout_s=20)
    kafka_node.pause()
    try:
        wait_until(
            lambda: (counts := workload.send_counts()).unknown and counts.failed,
            awaited="records that never left, and others whose end is unknown",
            timeout_s=60,
            last_seen=lambda: str(workload.send_counts()),
        )
    finally:
        kafka_node.resume()
    acked = workload.acked()
    wait_until(lambda: workload.acked() > acked + 100, awaited="the producer to go on", timeout_s=30)
    workload.check()
    workload.stop_producers()
    workload.final_read()
    workload.stop()
    convert_journals(RecordFolder(tmp_path))
    sends = _rows(tmp_path, "sends/producer-1")
    statuses = Counter((row["status"], row["error"]) for row in sends)
    assert sum(count for (status, _), count in statuses.items() if status == "unknown") > 0
    assert statuses["failed", "EXPIRED_UNSENT"] > 0
    final = {row["value"] for row in _rows(tmp_path, "polls/consumer-0")}
    assert all(row["value"] in final for row in sends if row["status"] == "acked")
    assert not [row for row in sends if row["status"] == "failed" and row["value"] in final]
    polls = _rows(tmp_path, "polls/consumer-1")
    assert {row["value"] for row in polls} <= final
    assert all(row["prev_offset"] in (row["offset"] - 1, None) for row in polls)


def test_a_producer_whose_journal_does_not_fit_stops_and_says_so(
    make: Make, start: StartClient, start_process: StartProcess, tmp_path: Path
) -> None:
    def start_limited(argv: Sequence[str], *, name: str, output: Path) -> ClientProcess:
        if name != "producer-1":
            return start(argv, name=name, output=output)
        return start_process(["prlimit", "--fsize=200000", *argv], name=name, output=output)

    workload = make([ProducerSpec(id=1, topic="tight")], start_client=start_limited)
    workload.start()
    with pytest.raises(HarnessError, match="journal cannot be written"):
        wait_until(lambda: workload.check(), awaited="the journal to be full", timeout_s=20)
    (end,) = workload.stop_producers()
    assert (end.exit_code, end.state) == (3, ClientState.FAILED)
    shown = workload.send_counts()
    workload.stop()
    journal = JournalReader(tmp_path / "journal" / "producer-1.journal")
    list(journal.frames())
    assert convert_journals(RecordFolder(tmp_path)) >= journal.torn_bytes > 0
    sends = _rows(tmp_path, "sends/producer-1")
    assert len(sends) >= shown.handed > 0
    assert sum(row["status"] == "acked" for row in sends) >= shown.acked


def test_the_journals_of_killed_clients_are_a_record(make: Make, kafka_node: SingleNode, tmp_path: Path) -> None:
    workload = make([ProducerSpec(id=1, topic="killed")], [ConsumerSpec(id=1, topics=("killed",))])
    workload.start()
    wait_until(lambda: workload.acked() >= 5_000, awaited="5,000 acked", timeout_s=20)
    wait_until(lambda: _polled_count(tmp_path) > 0, awaited="a record polled", timeout_s=20)
    acked = workload.acked()
    workload.close()
    with BrokerConnection(kafka_node.address, connect_timeout_s=1, request_timeout_s=2) as broker:
        (end,) = broker.list_offsets([("killed", 0)], LATEST)
    convert_journals(RecordFolder(tmp_path))
    sends = _rows(tmp_path, "sends/producer-1")
    assert sum(row["status"] == "acked" for row in sends) >= acked
    assert [row["sequence"] for row in sends] == list(range(len(sends)))
    assert all(row["offset"] == row["sequence"] < end.offset for row in sends if row["status"] == "acked")
    assert _rows(tmp_path, "polls/consumer-1")


def test_a_tailing_consumer_outlives_a_truncation_in_a_new_session(
    make: Make, kafka_node: SingleNode, tmp_path: Path
) -> None:
    """With each library."""
    topic = "cut"
    consumers = [ConsumerSpec(id=id_, topics=(topic,), client=client) for id_, client in CONSUMERS.items()]
    workload = make([ProducerSpec(id=1, topic=topic, rate_per_s=1_000)], consumers)
    workload.start()
    wait_until(
        lambda: min(_polled_count(tmp_path, id_) for id_ in CONSUMERS) >= 3_000, awaited="3,000 polled", timeout_s=30
    )
    kafka_node.kill()
    (log,) = (kafka_node.data_dir / f"{topic}-0").glob("*.log")
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size // 2)
    kafka_node.start()
    acked = workload.acked()
    wait_until(lambda: workload.acked() > acked + 500, awaited="the producer to go on", timeout_s=30)
    workload.stop_producers()
    final = workload.final_read().offsets[f"{topic}-0"].high_watermark
    workload.check()
    wait_until(
        lambda: {_last_polled(tmp_path, id_) for id_ in CONSUMERS} == {final - 1},
        awaited=f"the consumers to have read offset {final - 1}",
        timeout_s=30,
        last_seen=lambda: [_last_polled(tmp_path, id_) for id_ in CONSUMERS],
    )
    workload.stop()
    convert_journals(RecordFolder(tmp_path))

    kept = {row["value"] for row in _rows(tmp_path, "polls/consumer-0")}
    for id_, client in CONSUMERS.items():
        polls = _rows(tmp_path, f"polls/consumer-{id_}")
        assert {row["session"] for row in polls} == {1, 2}, client
        first, second = ([row for row in polls if row["session"] == number] for number in (1, 2))
        assert second[0]["prev_offset"] is None, client
        assert second[0]["offset"] <= first[-1]["offset"], client
        assert second[-1]["offset"] == final - 1, client
        assert second[-1]["leader_epoch"] > first[-1]["leader_epoch"], client
        assert {row["value"] for row in second} <= kept, client
        assert {row["value"] for row in first} - kept, f"{client}: nothing was cut off"


def test_kafka_names_the_settings_that_topics_do_not_have_and_those_that_were_meant(kafka_node: SingleNode) -> None:
    setups = {
        name: NewTopic(assignment=((1,),), config={"retention.ms": "-1", **config})
        for name, config in (("misspelt", {"flush.message": "1"}), ("beside", {"no-such": "1", "flush.ms": "1"}))
    }
    with pytest.raises(TopicSettingsRefused) as refusal:
        create_topics([kafka_node.address], setups, timeout_s=10)
    told = [(one.topic, one.why, one.near) for one in refusal.value.refused]
    assert told == [
        ("misspelt", "Kafka does not know flush.message", "flush.messages"),
        ("beside", "Kafka does not know no-such", ""),
    ]
