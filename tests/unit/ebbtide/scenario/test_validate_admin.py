"""Steps that delete topics and make them again: what a scenario may ask for."""

from __future__ import annotations

import pytest
from scenario_problems import FILE, problems_of

DELETE = '[[steps]]\nstep = "delete-topic"\ntopic = "{0}"\n'
CREATE = '[[steps]]\nstep = "create-topic"\ntopic = "{0}"\n'
PRODUCER = '[[producers]]\nid = 2\ntopic = "u"\nrate_per_s = 10\n'
CONSUMER = '[[consumers]]\nid = 1\ntopics = ["u"]\n'
U_AGAIN = DELETE.format("u") + CREATE.format("u")


def problems(steps: str, clients: str = "", *, to_run: bool = True) -> dict[str, str]:
    """What is wrong, by the place."""
    return problems_of(FILE.replace("{steps}", steps) + clients, to_run=to_run)


@pytest.mark.parametrize("steps", [U_AGAIN, U_AGAIN * 2, DELETE.format("u")])
def test_a_topic_may_be_deleted_and_made_again(steps: str) -> None:
    assert problems(steps) == {}


@pytest.mark.parametrize(
    ("steps", "at", "what"),
    [
        (CREATE.format("u"), 0, "a topic of this name exists"),
        (U_AGAIN + CREATE.format("u"), 2, "a topic of this name exists"),
        (CREATE.format("nope"), 0, "unknown topic"),
        (DELETE.format("u") * 2, 1, "an earlier step deleted the topic"),
        (DELETE.format("t"), 0, "a topic that clients use cannot be deleted, nor made again"),
        (CREATE.format("u") + DELETE.format("u"), 0, "a topic of this name exists"),
    ],
)
def test_a_topic_that_is_not_there_or_exists_is_one_error(steps: str, at: int, what: str) -> None:
    found = problems(steps)
    assert list(found) == [f"steps[{at}].topic"]
    assert what in found[f"steps[{at}].topic"]


def test_a_refusal_that_is_expected_changes_nothing() -> None:
    exists = CREATE.format("u") + 'expect_error = "TOPIC_ALREADY_EXISTS"\n'
    gone = DELETE.format("u") + 'expect_error = "UNKNOWN_TOPIC_OR_PARTITION"\n'
    assert problems(exists + DELETE.format("u") + gone + CREATE.format("u")) == {}


@pytest.mark.parametrize(
    ("client", "what"),
    [
        (CONSUMER, "u, which consumer 1 uses"),
        (PRODUCER, "u, which producer 2 uses"),
    ],
)
def test_clients_whose_records_could_not_be_judged_are_refused(client: str, what: str) -> None:
    assert what in problems(U_AGAIN, client).get("steps[0].topic", "")


def test_a_record_whose_clients_used_such_a_topic_stays_readable() -> None:
    assert problems(U_AGAIN, PRODUCER, to_run=False) == {}


@pytest.mark.parametrize(
    "step",
    [
        '[[steps]]\nstep = "add-partitions"\ntopic = "u"\ncount = 2\n',
        '[[steps]]\nstep = "delete-records"\npartition = "u-0"\n',
    ],
)
def test_a_topic_that_is_made_again_keeps_its_partitions_and_log_starts(step: str) -> None:
    assert "keeps its partitions and records" in problems(U_AGAIN + step)["steps[1].topic"]


def test_more_replicas_than_brokers_are_an_error_of_the_topic() -> None:
    text = FILE.replace("{steps}", U_AGAIN).replace("[topics.u]", "[topics.u]\nreplication_factor = 4")
    assert list(problems_of(text, to_run=True)) == ["topics.u.replication_factor"]
