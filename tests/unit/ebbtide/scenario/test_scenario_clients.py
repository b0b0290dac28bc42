"""The ids, client libraries and group protocols of a scenario's clients: what is accepted, and the errors."""

from __future__ import annotations

import pytest
from scenario_problems import FILE, problems, problems_of

WAIT = 'step = "wait"\ntrigger = { acked = 1 }'
CONSUMER = '[[consumers]]\nid = 1\ntopics = ["t"]\n'
MEMBER = CONSUMER + 'group = "g"\n'
NEW = 'client = "librdkafka"\ngroup_protocol = "consumer"\n'


def found(consumer: str, *, cluster: str = "", kafka: str = "4.3.1") -> dict[str, str]:
    return problems(WAIT, prediction=f"{consumer}\n{cluster}", kafka=kafka)


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


CLIENTS = FILE.replace("{steps}", "") + '[[consumers]]\nid = 1\ntopics = ["t"]\n'


@pytest.mark.parametrize("id_", ["0", "-1", str(1 << 23)])
@pytest.mark.parametrize("kind", ["producers", "consumers"])
def test_an_id_that_no_record_could_hold_is_refused(kind: str, id_: str) -> None:
    before, after = CLIENTS.split(f"[[{kind}]]\nid = 1")
    assert f"{kind}[0].id" in problems_of(f"{before}[[{kind}]]\nid = {id_}{after}")


@pytest.mark.parametrize("kind", ["producers", "consumers"])
def test_an_id_twice_is_refused_at_the_second_place(kind: str) -> None:
    client = CLIENTS.split(f"[[{kind}]]")[1].split("[[")[0]
    assert f"{kind}[1].id" in problems_of(f"{CLIENTS}\n[[{kind}]]{client}")
