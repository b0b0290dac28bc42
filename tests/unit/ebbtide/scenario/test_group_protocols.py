"""The client library and the group protocol of a consumer in a scenario file: what is accepted, and the errors."""

from __future__ import annotations

import pytest
from scenario_problems import problems

from ebbtide import librdkafka
from ebbtide.errors import HarnessError
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec, Scenario, TopicSpec
from harness.runner.host import require_libraries

WAIT = 'step = "wait"\ntrigger = { acked = 1 }'
CONSUMER = '[[consumers]]\nid = 1\ntopics = ["t"]\n'
MEMBER = CONSUMER + 'group = "g"\n'
NEW = 'client = "librdkafka"\ngroup_protocol = "consumer"\n'


def found(consumer: str, *, cluster: str = "", kafka: str = "4.3.1") -> dict[str, str]:
    return problems(WAIT, prediction=f"{consumer}\n{cluster}", kafka=kafka)


def scenario_with(consumer: ConsumerSpec) -> Scenario:
    producer = ProducerSpec(id=1, topic="t", count=1)
    topics = {"t": TopicSpec()}
    return Scenario(name="x", title="x", kafka=("4.3.1",), topics=topics, producers=(producer,), consumers=(consumer,))


@pytest.mark.parametrize(
    "consumer", [CONSUMER + 'client = "librdkafka"\n', MEMBER + NEW, MEMBER + 'group_protocol = "classic"\n']
)
def test_what_a_library_can_do_is_valid(consumer: str) -> None:
    assert found(consumer) == {}


@pytest.mark.parametrize(
    ("consumer", "what"),
    [
        (CONSUMER + NEW, "only a member of a group has its protocol"),
        (MEMBER + 'group_protocol = "consumer"\n', "kafka-python does not have the group protocol of KIP-848"),
    ],
)
def test_a_protocol_that_the_consumer_cannot_speak_is_refused(consumer: str, what: str) -> None:
    assert what in found(consumer)["consumers[0].group_protocol"]


@pytest.mark.parametrize(
    ("kafka", "cluster", "what"),
    [
        ("3.9.1", "", "Kafka 3.9.1 does not have the group protocol of KIP-848"),
        ("4.3.1", '[cluster]\nformed_on = "3.9.1"\n', "Kafka 3.9.1 does not have the group protocol of KIP-848"),
        ("4.3.1", '[cluster.features]\n"group.version" = 0\n', "group.version 0 switches"),
        ("4.3.1", '[cluster.features]\n"metadata.version" = 21\n', "with metadata.version 21, group.version is 0"),
    ],
    ids=["release", "the release of an upgraded cluster", "feature level", "metadata version"],
)
def test_a_cluster_without_the_protocol_is_refused(kafka: str, cluster: str, what: str) -> None:
    problem = found(MEMBER + NEW, cluster=cluster, kafka=kafka)["consumers[0].group_protocol"]
    assert what in problem
    assert "Kafka 4.0.0 or newer" in problem


@pytest.mark.parametrize("features", ['"metadata.version" = 22', '"metadata.version" = 21\n"group.version" = 1'])
def test_a_cluster_whose_levels_have_the_protocol_is_valid(features: str) -> None:
    assert found(MEMBER + NEW, cluster=f"[cluster.features]\n{features}\n") == {}


def test_a_missing_librdkafka_names_the_consumer_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka, "find_spec", lambda name: None)
    consumer = ConsumerSpec(id=1, topics=("t",), client="librdkafka")
    scenario = scenario_with(consumer)
    with pytest.raises(HarnessError, match="confluent-kafka is not installed") as caught:
        require_libraries(scenario)
    assert caught.value.where == "consumers[0]"
