"""Keys, sizes, compression and settings of producers and consumers, and what a scenario may ask of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from client_configs import consumer_config, producer_config
from kafka import KafkaConsumer, KafkaProducer
from kafka.cluster import ClusterMetadata
from kafka.partitioner import DefaultPartitioner
from kafka.producer.kafka import KafkaProducer as Producer
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from scenario_problems import problems_of

from ebbtide.journal.payload import encode, value_of
from ebbtide.record.files import RecordFolder
from ebbtide.scenario import catalogue
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec, TopicSpec
from ebbtide.scenario.validate_clients import PAYLOAD_BYTES_MAX
from workloads.group import Workload
from workloads.producer import BatchedPartition
from workloads.sending import send_order
from workloads.settings import consumer_settings, producer_settings

BROKER_TAKES_BYTES = 1_048_588
"""message.max.bytes as Kafka ships it."""


def test_a_key_is_on_the_partition_that_the_default_partitioner_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ClusterMetadata()
    for name, answer in (("topics", {"t"}), ("partitions_for_topic", set(range(6)))):
        monkeypatch.setattr(cluster, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(cluster, "available_partitions_for_topic", lambda _: set(range(6)))
    turns = send_order(producer_config(partitions=6, keys=50), [BatchedPartition(partition) for partition in range(6)])
    assert len({key for key, _ in turns}) == 50
    partitioner = DefaultPartitioner()
    for key, lane in turns:
        assert lane.partition == partitioner.partition("t", None, key, None, None, cluster)


def test_without_keys_the_partitions_are_served_in_turn() -> None:
    turns = send_order(producer_config(partitions=3), [BatchedPartition(partition) for partition in range(3)])
    assert [(key, lane.partition) for key, lane in turns] == [(None, 0), (None, 1), (None, 2)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("payload_bytes", [64, PAYLOAD_BYTES_MAX])
def test_the_largest_record_fits_what_brokers_take_and_comes_back(compression: str, payload_bytes: int) -> None:
    available, attributes = Producer._COMPRESSORS[None if compression == "none" else compression]
    assert available()
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=attributes,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=32_768,
    )
    payload = encode("run", 1, 0, 77, payload_bytes)
    assert builder.append(0, timestamp=0, key=b"key-99999", value=payload, headers=[])
    batch = bytes(builder.build())
    assert len(batch) <= BROKER_TAKES_BYTES
    assert [value_of("run")(record.value) for record in DefaultRecordBatch(batch)] == [77]


def test_every_setting_is_one_that_kafka_python_knows() -> None:
    transactional = producer_settings(producer_config(transactional_id="x", txn_records=1))
    assert transactional.keys() <= KafkaProducer.DEFAULT_CONFIG.keys()
    assert consumer_settings(consumer_config(group="g")).keys() <= KafkaConsumer.DEFAULT_CONFIG.keys()


def test_the_client_never_resets_a_position_by_itself() -> None:
    for policy in ("none", "earliest", "latest"):
        assert consumer_settings(consumer_config(auto_offset_reset=policy))["auto_offset_reset"] == "none"


def workload_of(record: Path, **settings: Any) -> Workload:
    """The workload of the topic t, whose clients are not started."""
    usual = {"topics": {"t": TopicSpec()}, "assignments": {"t": [(1,)]}, "bootstrap": ["10.0.0.1:9092"]}
    return Workload(
        record=RecordFolder(record),
        run_id="r",
        start_client=lambda *_, **__: pytest.fail("nothing is to be started"),
        **{**usual, **settings},  # type: ignore[arg-type]
    )


def test_a_run_tells_what_each_client_runs_with(tmp_path: Path) -> None:
    producer = ProducerSpec(id=4, topic="t", idempotent=True, compression="lz4", rate_per_s=1)
    consumer = ConsumerSpec(id=2, topics=("t",), group="g", isolation="read_committed")
    settings = workload_of(tmp_path, producers=[producer], consumers=[consumer]).settings()
    assert settings.keys() == {"producer-4", "consumer-2"}
    for expected in ("compression_type=lz4", "retries=2147483647", "metadata_max_age_ms=2000", "max_in_flight"):
        assert expected in settings["producer-4"]
    for expected in ("group_id=g", "isolation_level=read_committed", "session_timeout_ms=6000"):
        assert expected in settings["consumer-2"]


def test_only_a_group_and_a_producer_are_ready_for_partitions_that_a_step_adds(tmp_path: Path) -> None:
    workload = workload_of(
        tmp_path,
        topics={"t": TopicSpec(partitions=2)},
        assignments={"t": [(1,), (2,)]},
        producers=[ProducerSpec(id=1, topic="t", rate_per_s=1)],
        consumers=[ConsumerSpec(id=1, topics=("t",)), ConsumerSpec(id=2, topics=("t",), group="g")],
        final_partition_counts={"t": 5},
    )
    ((spec, client),) = workload._producers.values()
    config = workload._producer_config(spec, client, 1)
    assert (config.partitions, config.partitions_at_start) == (5, 2)
    configs = [workload._consumer_config(spec, client, 1) for spec, client in workload._consumers.values()]
    assert [config.topics for config in configs] == [{"t": 2}, {"t": 5}]
    assert workload.high_watermark("t", 9) is None


def test_records_under_way_are_bounded_in_bytes_too(tmp_path: Path) -> None:
    big = ProducerSpec(id=1, topic="t", payload_bytes=PAYLOAD_BYTES_MAX, rate_per_s=1)
    workload = workload_of(tmp_path, producers=[big])
    ((spec, client),) = workload._producers.values()
    assert workload._producer_config(spec, client, 1).max_outstanding == 64


PRODUCER = 'id = 1\ntopic = "t"\nacks = "all"\ncount = 200\nrate_per_s = 1000'
CONSUMER = '[[consumers]]\nid = 1\ntopics = ["t"]'


@pytest.mark.parametrize(
    ("extra", "found"),
    [
        ("idempotent = true", set()),
        ("transactional = true\ntxn_records = 10\nabort_every = 2\nfence_every = 3", set()),
        ("transactional = true", {"producers[0].txn_records"}),
        ("transactional = true\ntxn_records = 0", {"producers[0].txn_records"}),
        ("txn_records = 10", {"producers[0].txn_records"}),
        ("abort_every = 2\nfence_every = 3", {"producers[0].abort_every", "producers[0].fence_every"}),
        ("keys = 0", {"producers[0].keys"}),
        ("payload_bytes = 2000000", {"producers[0].payload_bytes"}),
        ('compression = "lzma"', {"producers[0].compression"}),
    ],
)
def test_what_a_producer_may_be_asked(extra: str, found: set[str]) -> None:
    assert _problems("[[producers]]\n", f"[[producers]]\n{extra}\n") == found


@pytest.mark.parametrize("kind", ["idempotent = true", "transactional = true\ntxn_records = 5"])
def test_idempotence_needs_every_in_sync_replica(kind: str) -> None:
    text = catalogue.text_of("healthy").replace('acks = "all"', f'acks = "1"\n{kind}')
    assert list(problems_of(text)) == ["producers[0].acks"]


@pytest.mark.parametrize(
    ("extra", "found"),
    [
        ('group = "g"\nleave_every = 5\nmax_rate_per_s = 10\nauto_offset_reset = "latest"', set()),
        ("leave_every = 5", {"consumers[0].leave_every"}),
        ('group = "a b"', {"consumers[0].group"}),
        ("max_rate_per_s = 0", {"consumers[0].max_rate_per_s"}),
        ('auto_offset_reset = "newest"', {"consumers[0].auto_offset_reset"}),
    ],
)
def test_what_a_consumer_may_be_asked(extra: str, found: set[str]) -> None:
    assert _problems("[[consumers]]\n", f"[[consumers]]\n{extra}\n") == found


def _problems(before: str, after: str) -> set[str]:
    text = catalogue.text_of("healthy")
    assert before in text
    return set(problems_of(text.replace(before, after, 1)))
