"""The client libraries of a scenario: what a file may ask of each, and what a missing one says."""

from __future__ import annotations

import pytest
import scenario_problems
from confluent_kafka import KafkaError, Producer

from ebbtide import librdkafka
from ebbtide.errors import HarnessError, Problems
from ebbtide.scenario.kafka_settings import Place, allowed_settings
from ebbtide.scenario.model import ProducerSpec, Scenario, TopicSpec
from ebbtide.scenario.parse import parse
from ebbtide.scenario.safety import refuse_unsafe
from ebbtide.scenario.write import text_of
from harness.runner.host import require_libraries
from workloads.config import ConsumerConfig, Endpoints, ProducerConfig
from workloads.library_settings import java_settings, librdkafka_settings, makes_one_attempt, producer_line
from workloads.librdkafka_producer import open_producer
from workloads.librdkafka_sends import name_of_error
from workloads.settings import consumer_settings, kafka_python_settings
from workloads.transactions import _ANSWER_S

FILE = """
name = "x"
title = "x"
kafka = ["4.3.1"]
[topics.t]
partitions = 2
[[producers]]
id = 1
topic = "t"
rate_per_s = 10
"""


def problems_of(extra: str) -> dict[str, str]:
    """The problems of a file whose producer has these keys too, by place."""
    return scenario_problems.problems_of(FILE + extra)


def scenario_of(**producer: object) -> Scenario:
    spec = ProducerSpec(id=1, topic="t", count=1, **producer)  # type: ignore[arg-type]
    return Scenario(name="x", title="x", kafka=("4.3.1",), topics={"t": TopicSpec()}, producers=(spec,))


def config_of(**settings: object) -> ProducerConfig:
    return ProducerConfig(
        endpoints=Endpoints(status="", stop=""),
        journal="",
        run_id="r",
        bootstrap=(),
        id=1,
        topic="t",
        **settings,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "extra",
    [
        'client = "librdkafka"',
        'client = "java"',
        'client = "java"\nkeys = 2\npayload_bytes = 500',
        'client = "librdkafka"\nproperties = { "message.timeout.ms" = "9000" }',
        'client = "java"\nkeys = 3\nclient_kafka = "3.9.1"\nproperties = { retries = "0" }',
        'client = "kafka-python"',
        'properties = { retries = "0", request_timeout_ms = "1000", delivery_timeout_ms = "1200" }',
        'client = "java"\ntransactional = true\ntxn_records = 5\npayload_bytes = 500\nabort_every = 3\nfence_every = 4',
        'client = "java"\ntransactional = true\ntxn_records = 5\nclient_kafka = "3.9.1"\nabort_unacked = true',
        'client = "java"\nidempotent = true\nkeys = 2\nproperties = { retries = "1" }',
    ],
)
def test_what_a_library_can_do_is_valid(extra: str) -> None:
    assert problems_of(extra) == {}


def test_kafka_python_gets_the_settings_of_the_scenario_in_its_own_types() -> None:
    config = config_of(properties={"retries": "0", "request_timeout_ms": "1000", "delivery_timeout_ms": "1200"})
    settings = kafka_python_settings(config)
    assert (settings["retries"], settings["request_timeout_ms"], settings["delivery_timeout_ms"]) == (0, 1000, 1200)
    assert "retries=0" in producer_line("kafka-python", config)
    assert makes_one_attempt(config)
    reader = ConsumerConfig(
        endpoints=config.endpoints,
        journal="",
        run_id="r",
        bootstrap=(),
        id=1,
        topics={"t": 1},
        group="g",
        properties={"auto_commit_interval_ms": "9", "enable_incremental_fetch_sessions": "false", "client_rack": "a"},
    )
    read = consumer_settings(reader)
    assert (read["auto_commit_interval_ms"], read["enable_incremental_fetch_sessions"]) == (9, False)
    assert (read["client_rack"], read["enable_auto_commit"]) == ("a", True)


@pytest.mark.parametrize("place", ["kafka-python", "kafka-python-consumer", "librdkafka-consumer"])
def test_a_scenario_sets_nothing_by_which_ebbtide_judges_or_that_names_code_or_an_address(place: Place) -> None:
    words = [one.replace(".", "_") for one in allowed_settings(place)]
    assert "request_timeout_ms" in words or "socket_timeout_ms" in words
    for part in (
        "acks",
        "auto_offset",
        "enable_auto",
        "bootstrap",
        "client_id",
        "group_id",
        "isolation",
        "ssl",
        "sasl",
    ):
        assert [word for word in words if word.startswith(part)] == []
    assert [word for word in words if word.endswith(("serializer", "callback", "reporters", "url", "file"))] == []


@pytest.mark.parametrize(
    ("extra", "where"),
    [
        ('client = "librdkafka"\ntransactional = true\ntxn_records = 5', "producers[0].transactional"),
        (
            'client = "java"\ntransactional = true\ntxn_records = 5\nproperties = { retries = "0" }',
            "producers[0].properties.retries",
        ),
        (
            'client = "java"\nidempotent = true\nkeys = 2\n'
            'properties = { "max.in.flight.requests.per.connection" = "6" }',
            "producers[0].properties.max.in.flight.requests.per.connection",
        ),
        (
            'client = "java"\ntransactional = true\ntxn_records = 5\nclient_kafka = "2.8.2"',
            "producers[0].client_kafka",
        ),
        ('client = "java"\ntransactional = true', "producers[0].txn_records"),
        ('client = "java"\nkeys = 2\nabort_every = 3', "producers[0].abort_every"),
        ('client_kafka = "3.9.1"', "producers[0].client_kafka"),
        ('client = "java"\nkeys = 2\nclient_kafka = "four"', "producers[0].client_kafka"),
        ('properties = { acks = "1" }', "producers[0].properties.acks"),
        (
            'client = "librdkafka"\nproperties = { "plugin.library.paths" = "/x.so" }',
            "producers[0].properties.plugin.library.paths",
        ),
        (
            'client = "java"\nkeys = 2\nproperties = { "interceptor.classes" = "X" }',
            "producers[0].properties.interceptor.classes",
        ),
        (
            'client = "java"\nkeys = 2\nproperties = { retries = "0\\nx=1" }',
            "producers[0].properties.retries",
        ),
        ('client = "java"\nkeys = 2\nproperties = { retries = "many" }', "producers[0].properties.retries"),
        (
            'client = "java"\nidempotent = true\nkeys = 2\nproperties = { retries = "-1" }',
            "producers[0].properties.retries",
        ),
        (
            'client = "librdkafka"\nproperties = { "message.timeout.ms" = "30s" }',
            "producers[0].properties.message.timeout.ms",
        ),
        (
            'client = "librdkafka"\nproperties = { "enable.gapless.guarantee" = "1" }',
            "producers[0].properties.enable.gapless.guarantee",
        ),
        ('client = "sarama"', "producers[0].client"),
    ],
)
def test_what_a_library_cannot_do_is_refused_at_its_key(extra: str, where: str) -> None:
    assert where in problems_of(extra)


def test_a_scenario_without_a_file_cannot_load_code_into_a_client() -> None:
    unsafe = scenario_of(client="librdkafka", properties={"plugin.library.paths": "/x.so"})
    with pytest.raises(Problems, match=r"plugin\.library\.paths"):
        refuse_unsafe(unsafe)


def test_no_setting_of_a_scenario_names_a_file_code_or_an_address() -> None:
    words = ("class", "path", ".location", "servers", "file", "plugin", "interceptor", "jaas", "url", "_cb")
    for place in ("producer", "librdkafka", "kafka-python"):
        assert not [name for name in allowed_settings(place) if any(word in name for word in words)]


def test_the_library_is_written_and_read_again() -> None:
    scenario = scenario_of(client="java", client_kafka="3.9.1", properties={"retries": "0"})
    assert parse(text_of(scenario), file="x.toml") == scenario


def test_a_missing_librdkafka_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka, "find_spec", lambda name: None)
    with pytest.raises(HarnessError, match="confluent-kafka is not installed") as caught:
        require_libraries(scenario_of(client="librdkafka"))
    assert "pip install" in str(caught.value.next)
    require_libraries(scenario_of(client="java"))


@pytest.mark.parametrize("idempotent", [False, True])
def test_every_setting_is_one_that_librdkafka_knows(idempotent: bool) -> None:
    other = {"enable.gapless.guarantee": "true", "batch.num.messages": "100", "retry.backoff.max.ms": "900"}
    own = librdkafka_settings(config_of(idempotent=idempotent, properties=other if idempotent else {}))
    Producer({"bootstrap.servers": "localhost:1", **own})


def test_a_setting_with_an_impossible_value_is_one_clear_error() -> None:
    with pytest.raises(HarnessError, match="librdkafka refuses") as caught:
        open_producer(config_of(properties={"message.timeout.ms": "soon"}), ["localhost:1"])
    assert "message.timeout.ms" in str(caught.value.got)


def test_a_transactional_java_client_answers_before_the_producer_stops_waiting() -> None:
    java = java_settings(config_of(transactional_id="x"))
    assert java["transactional.id"] == "x"
    assert java["enable.idempotence"] is True
    assert int(str(java["max.block.ms"])) < 1_000 * _ANSWER_S < 1 + int(str(java["transaction.timeout.ms"]))


def test_the_libraries_have_the_same_limits() -> None:
    rdkafka, java = librdkafka_settings(config_of()), java_settings(config_of())
    assert rdkafka["message.timeout.ms"] == java["delivery.timeout.ms"] == 15_000
    assert rdkafka["message.send.max.retries"] == java["retries"]
    for name in ("acks", "enable.idempotence", "max.in.flight.requests.per.connection", "linger.ms", "batch.size"):
        assert rdkafka[name] == java[name]


def test_the_manifest_names_the_library_and_its_settings() -> None:
    line = producer_line("librdkafka", config_of(properties={"retry.backoff.ms": "7"}))
    assert line.startswith("client=librdkafka, acks=-1")
    assert "retry.backoff.ms=7" in line
    assert producer_line("kafka-python", config_of()).startswith("acks=-1")


def test_an_error_of_a_broker_has_kafkas_name_and_others_librdkafkas() -> None:
    assert name_of_error(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)) == "NOT_ENOUGH_REPLICAS"
    assert name_of_error(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)) == "MESSAGE_TOO_LARGE"
    assert name_of_error(KafkaError(KafkaError._MSG_TIMED_OUT)) == "_MSG_TIMED_OUT"
