"""Copiers in a scenario file: what they need, and what nobody else can have."""

from __future__ import annotations

import pytest
from copier_scenario import COPIER
from scenario_problems import problems

from ebbtide.scenario.internal_topics import OFFSETS_TOPIC
from ebbtide.scenario.parse import parse

OFFSETS = f"[topics.{OFFSETS_TOPIC}]\n"


READER = '[[consumers]]\nid = 1\ntopics = ["u"]\nisolation = "read_committed"\n'


def found(
    old: str = "", new: str = "", *, more: str = OFFSETS, steps: str = "", strict: bool = False
) -> dict[str, str]:
    """The problems of a scenario with a copier of which a line is another."""
    assert old in COPIER
    return problems(*([steps] if steps else []), prediction=COPIER.replace(old, new, 1) + more, strict=strict)


def test_a_copier_needs_neither_count_nor_rate() -> None:
    assert found() == {}


def test_the_coordinator_of_its_group_can_be_a_target() -> None:
    assert found(steps='step = "kill"\ntrigger = { acked = 1 }\ntarget = "coordinator(copiers)"') == {}


@pytest.mark.parametrize("offsets", ["in-transaction", "after-transaction"])
def test_a_copier_says_when_its_offsets_are_committed(offsets: str) -> None:
    assert found('group = "copiers"', f'group = "copiers"\noffsets = "{offsets}"') == {}


def test_offsets_are_committed_in_the_transaction_unless_a_scenario_says_otherwise() -> None:
    text = 'name = "x"\ntitle = "x"\ndescription = "x"\nkafka = ["4.3.1"]\n[topics.t]\n[topics.u]\n' + OFFSETS
    scenario = parse(text + '[[producers]]\nid = 1\ntopic = "t"\ncount = 1\n' + COPIER, file="x.toml")
    assert [one.copied_offsets for one in scenario.producers] == ["in-transaction"] * 2


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ('copies = "t"', 'copies = "v"', "copies", "unknown topic"),
        ('copies = "t"', 'copies = "u"', "copies", "a copier that reads what it sends never ends"),
        ('copies = "t"', f'copies = "{OFFSETS_TOPIC}"', "copies", "Kafka's own topic"),
        ('client = "java"\n', "", "copies", "only a transactional java producer copies"),
        ("transactional = true\ntxn_records = 20\n", "", "copies", "only a transactional java producer copies"),
        ('group = "copiers"\n', "", "group", "missing key"),
        ('group = "copiers"', 'group = "a b"', "group", "not a group name"),
        ('copies = "t"\ngroup', "rate_per_s = 10\ngroup", "group", "only a producer that copies a topic has this"),
        (
            'copies = "t"\ngroup = "copiers"',
            'rate_per_s = 10\noffsets = "in-transaction"',
            "offsets",
            "only a producer that copies a topic has this",
        ),
        *(
            ("txn_records = 20", f"txn_records = 20\n{key} = {value}", key, "a copier sends a record for each record")
            for key, value in (
                ("count", "5"),
                ("rate_per_s", "5"),
                ("keys", "5"),
                ("abort_every", "5"),
                ("fence_every", "5"),
                ("abort_unacked", "true"),
            )
        ),
    ],
)
def test_a_copier_that_cannot_be_is_one_error(old: str, new: str, where: str, what: str) -> None:
    ((at, problem),) = found(old, new).items()
    assert at == f"producers[1].{where}"
    assert what in problem


def test_a_group_of_consumers_is_not_shared_with_copiers() -> None:
    consumer = '[[consumers]]\nid = 1\ntopics = ["t"]\ngroup = "copiers"\n'
    ((at, problem),) = found(more=consumer + OFFSETS).items()
    assert (at, "a group of consumers" in problem) == ("producers[1].group", True)


def test_a_topic_that_a_copier_reads_is_not_deleted() -> None:
    step = 'step = "delete-topic"\ntrigger = { acked = 1 }\ntopic = "v"'
    more = f"[topics.v]\n{OFFSETS}"
    assert found(more=more, steps=step) == {}
    problem = found('copies = "t"', 'copies = "v"', more=more, steps=step, strict=True)["steps[0].topic"]
    assert "a topic that clients use" in problem
    assert "which producer 2 uses" in problem


def test_a_copier_says_how_the_offsets_are_replicated() -> None:
    ((at, problem),) = found(more="").items()
    assert at == "producers[1].group"
    assert f"[topics.{OFFSETS_TOPIC}] with replication_factor and min_isr" in problem


@pytest.mark.parametrize(
    "consumer", ["", READER.replace('"u"', '"t"'), READER.replace("read_committed", "read_uncommitted")]
)
def test_a_copier_whose_copies_no_read_committed_consumer_reads_shows_nothing(consumer: str) -> None:
    ((at, problem),) = found(more=consumer + OFFSETS, strict=True).items()
    assert at == "producers[1].copies"
    assert "no read_committed consumer reads u" in problem
    assert found(more=consumer + OFFSETS) == {}


def test_a_copier_whose_copies_a_read_committed_consumer_reads_is_useful() -> None:
    assert found(more=READER.replace('["u"]', '["t", "u"]') + OFFSETS, strict=True) == {}


def test_a_consumer_that_cannot_be_read_may_read_the_copies() -> None:
    unread = READER.replace('["u"]', '["t", 1]')
    assert found(more=unread + OFFSETS, strict=True).keys() == {"consumers[0].topics[1]"}
