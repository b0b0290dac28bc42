"""Groups, their coordinators and their topic in a scenario file: what is accepted, and the errors."""

from __future__ import annotations

import pytest
from scenario_problems import problems

from ebbtide.scenario.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ebbtide.scenario.words import Role, overlap

KILL = 'step = "kill"\ntrigger = {{ acked = 1 }}\ntarget = "{role}"'
GROUP = '[[consumers]]\nid = 1\ntopics = ["t"]\ngroup = "g"\ncommit_every = 10\n'
TOPIC = f"[topics.{OFFSETS_TOPIC}]\n"


def found(role: str = "coordinator(g)", more: str = GROUP + TOPIC) -> dict[str, str]:
    return problems(KILL.format(role=role), prediction=more)


@pytest.mark.parametrize("role", ["coordinator(g)", f"leader({OFFSETS_TOPIC}-0)", f"followers({OFFSETS_TOPIC}-0)"])
def test_a_coordinator_can_be_a_target(role: str) -> None:
    assert found(role) == {}


def test_a_coordinator_of_a_group_that_is_not_there_is_one_error() -> None:
    (problem,) = found("coordinator(h)").items()
    assert problem[0] == "steps[0].target"
    assert "no group of that name" in problem[1]
    assert "'h'" in problem[1]
    assert "allowed: g" in problem[1]


def test_who_commits_says_how_the_offsets_are_replicated() -> None:
    told = found("leader(t-0)", more=GROUP)
    assert list(told) == ["consumers[0].commit_every"]
    assert f"[topics.{OFFSETS_TOPIC}] with replication_factor and min_isr" in told["consumers[0].commit_every"]


def test_only_a_member_of_a_group_commits() -> None:
    consumer = '[[consumers]]\nid = 1\ntopics = ["t"]\ncommit_every = 10\n'
    assert "only a member of a group can commit" in found("leader(t-0)", more=consumer)["consumers[0].commit_every"]


@pytest.mark.parametrize(
    ("more", "where"),
    [
        (GROUP.replace('"t"', f'"{OFFSETS_TOPIC}"') + TOPIC, "consumers[0].topics[0]"),
        (GROUP + TOPIC + "partitions = 2\n", f"topics.{OFFSETS_TOPIC}.partitions"),
        (GROUP.replace("10", "0") + TOPIC, "consumers[0].commit_every"),
        (
            GROUP + TOPIC + '[cluster.broker_properties]\n"offsets.topic.num.partitions" = "3"\n',
            "cluster.broker_properties",
        ),
    ],
)
def test_the_topic_is_kafkas_own(more: str, where: str) -> None:
    assert list(found(more=more)) == [where]


@pytest.mark.parametrize("topic", INTERNAL_TOPICS)
def test_kafkas_own_topics_cannot_be_deleted_or_get_partitions(topic: str) -> None:
    for step in ("delete-topic", "add-partitions"):
        text = f'step = "{step}"\ntrigger = {{ acked = 1 }}\ntopic = "{topic}"' + "\ncount = 2" * (step[0] == "a")
        assert list(problems(text, prediction=f"[topics.{topic}]\n")) == ["steps[0].topic"]


TRANSACTIONS = f"[topics.{TRANSACTIONS_TOPIC}]\n"


def test_a_scenario_says_how_the_states_of_transactions_are_replicated() -> None:
    more = TRANSACTIONS + "replication_factor = 2\nmin_isr = 1\nassignment = [[2, 1]]\n"
    assert found(f"leader({TRANSACTIONS_TOPIC}-0)", more=more) == {}


@pytest.mark.parametrize(
    ("more", "where"),
    [
        (TRANSACTIONS + "partitions = 2\n", f"topics.{TRANSACTIONS_TOPIC}.partitions"),
        (
            TRANSACTIONS + '[cluster.broker_properties]\n"transaction.state.log.num.partitions" = "3"\n',
            "cluster.broker_properties",
        ),
        (
            TRANSACTIONS + f'[[consumers]]\nid = 1\ntopics = ["{TRANSACTIONS_TOPIC}"]\n',
            "consumers[0].topics[0]",
        ),
    ],
)
def test_the_states_of_transactions_are_kafkas_own(more: str, where: str) -> None:
    assert list(found("leader(t-0)", more=more)) == [where]


def test_a_coordinator_and_the_leader_of_its_partition_are_one_broker() -> None:
    assert overlap(Role("coordinator(g)"), Role(f"leader({OFFSETS_TOPIC}-0)"))
    assert overlap(Role("coordinator(g)"), Role("coordinator(h)"))
    assert not overlap(Role("coordinator(g)"), Role("leader(t-0)"))
