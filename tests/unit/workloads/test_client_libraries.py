"""The client libraries of a scenario: what a file may ask of each, and what a missing one says."""

from __future__ import annotations

import pytest
from allowed_settings import allowed_settings
from client_configs import consumer_config, producer_config
from confluent_kafka import KafkaError, Producer
from scenario_problems import problems

from ebbtide import librdkafka
from ebbtide.errors import HarnessError
from ebbtide.scenario.kafka_settings import Place
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec, Scenario, TopicSpec
from ebbtide.scenario.parse import parse
from ebbtide.scenario.write import text_of
from harness.runner.host import require_libraries
from workloads.library_settings import java_settings, librdkafka_settings, makes_one_attempt, producer_line
from workloads.librdkafka_producer import name_of_error, open_producer
from workloads.settings import consumer_settings, kafka_python_settings, producer_settings
from workloads.transactions import _ANSWER_S


def scenario_of(*consumers: ConsumerSpec, **producer: object) -> Scenario:
    spec = ProducerSpec(id=1, topic="t", count=1, **producer)  # type: ignore[arg-type]
    topics = {"t": TopicSpec()}
    return Scenario(name="x", title="x", kafka=("4.3.1",), topics=topics, producers=(spec,), consumers=consumers)


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
    assert problems(producer=extra) == {}


def test_kafka_python_gets_the_settings_of_the_scenario_in_its_own_types() -> None:
    config = producer_config(properties={"retries": "0", "request_timeout_ms": "1000", "delivery_timeout_ms": "1200"})
    settings = kafka_python_settings(config)
    assert (settings["retries"], settings["request_timeout_ms"], settings["delivery_timeout_ms"]) == (0, 1000, 1200)
    assert "retries=0" in producer_line("kafka-python", config)
    assert makes_one_attempt(config)
    reader = consumer_config(
        endpoints=config.endpoints,
        topics={"t": 1},
        group="g",
        properties={"auto_commit_interval_ms": "9", "enable_incremental_fetch_sessions": "false", "client_rack": "a"},
    )
    read = consumer_settings(reader)
    assert (read["auto_commit_interval_ms"], read["enable_incremental_fetch_sessions"]) == (9, False)
    assert (read["client_rack"], read["enable_auto_commit"]) == ("a", True)


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_only_an_idempotent_producer_has_several_requests_in_flight(is_idempotent: bool) -> None:
    """A retry behind a later request would reorder records, which only the broker's check of sequences prevents."""
    config = producer_config(idempotent=is_idempotent)
    most = 5 if is_idempotent else 1
    assert producer_settings(config)["max_in_flight_requests_per_connection"] == most
    assert librdkafka_settings(config)["max.in.flight.requests.per.connection"] == most


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
    assert [
        word
        for word in words
        if word.endswith(("serializer", "callback", "reporters", "url", "file", "class", "path", "location", "_cb"))
    ] == []


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
    assert where in problems(producer=extra)


def test_a_producer_without_transactions_has_none_to_abort() -> None:
    assert "only a transactional producer" in problems(producer="abort_unacked = true")["producers[0].abort_unacked"]
    kept = "abort_unacked = true\ntransactional = true\ntxn_records = 5"
    assert problems(producer=kept) == {}
    assert problems(producer=f'{kept}\nclient = "java"') == {}
    other = problems(producer=f'{kept}\nclient = "librdkafka"')
    assert "kafka-python and java only" in other["producers[0].abort_unacked"]


def test_the_library_is_written_and_read_again() -> None:
    scenario = scenario_of(client="java", client_kafka="3.9.1", properties={"retries": "0"})
    assert parse(text_of(scenario), file="x.toml") == scenario


@pytest.mark.parametrize("client", ["producer", "consumer"])
def test_a_missing_librdkafka_says_who_needs_it_and_what_to_install(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = ConsumerSpec(id=1, topics=("t",), client="librdkafka")
    needs_it = scenario_of(client="librdkafka") if client == "producer" else scenario_of(consumer)
    monkeypatch.setattr(librdkafka, "find_spec", lambda name: None)
    with pytest.raises(HarnessError, match="confluent-kafka is not installed") as caught:
        require_libraries(needs_it)
    assert caught.value.where == f"{client}s[0]"
    assert "pip install" in str(caught.value.next)
    require_libraries(scenario_of(client="java"))


@pytest.mark.parametrize("idempotent", [False, True])
def test_every_setting_is_one_that_librdkafka_knows(idempotent: bool) -> None:
    other = {"enable.gapless.guarantee": "true", "batch.num.messages": "100", "retry.backoff.max.ms": "900"}
    own = librdkafka_settings(producer_config(idempotent=idempotent, properties=other if idempotent else {}))
    Producer({"bootstrap.servers": "localhost:1", **own})


def test_a_setting_with_an_impossible_value_is_one_clear_error() -> None:
    with pytest.raises(HarnessError, match="librdkafka refuses") as caught:
        open_producer(producer_config(properties={"message.timeout.ms": "soon"}), ["localhost:1"])
    assert "message.timeout.ms" in str(caught.value.got)


def test_a_transactional_java_client_answers_before_the_producer_stops_waiting() -> None:
    java = java_settings(producer_config(transactional_id="x"))
    assert java["transactional.id"] == "x"
    assert java["enable.idempotence"] is True
    assert int(str(java["max.block.ms"])) < 1_000 * _ANSWER_S < 1 + int(str(java["transaction.timeout.ms"]))


def test_the_libraries_have_the_same_limits() -> None:
    rdkafka, java = librdkafka_settings(producer_config()), java_settings(producer_config())
    assert rdkafka["message.timeout.ms"] == java["delivery.timeout.ms"] == 15_000
    assert rdkafka["message.send.max.retries"] == java["retries"]
    for name in ("acks", "enable.idempotence", "max.in.flight.requests.per.connection", "linger.ms", "batch.size"):
        assert rdkafka[name] == java[name]


def test_the_manifest_names_the_library_and_its_settings() -> None:
    line = producer_line("librdkafka", producer_config(properties={"retry.backoff.ms": "7"}))
    assert line.startswith("client=librdkafka, acks=-1")
    assert "retry.backoff.ms=7" in line
    assert producer_line("kafka-python", producer_config()).startswith("acks=-1")


def test_an_error_of_a_broker_has_kafkas_name_and_others_librdkafkas() -> None:
    assert name_of_error(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)) == "NOT_ENOUGH_REPLICAS"
    assert name_of_error(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)) == "MESSAGE_TOO_LARGE"
    assert name_of_error(KafkaError(KafkaError._MSG_TIMED_OUT)) == "_MSG_TIMED_OUT"
