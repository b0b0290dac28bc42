"""Which of several topics of one name a row is about, where steps deleted a topic and made it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import STEPS, StepEntry
from ebbtide.record.topic_lives import TopicLives, deletion_times, is_deleted, is_unknown, name_of, topic_id_in


def made(since: int, asked_ns: int, known_ns: int | None, topic_id: str = "B", **proof: Any) -> StepEntry:
    """A step that made the topic t again."""
    figures = {
        "answer": "NONE",
        "since": since,
        "asked_ns": asked_ns,
        "known_ns": known_ns,
        "unaware": [],
        "record": {"topic_id": topic_id},
    }
    return StepEntry(index=0, step="create-topic", parameters={"topic": "t"}, effect_ns=known_ns, proof=figures | proof)


ONCE = TopicLives.of_steps([made(50, 100, 110)])
TWICE = TopicLives.of_steps([made(50, 100, 110), made(80, 200, 210, "C")])


def test_topics_that_no_step_made_again_keep_their_names() -> None:
    assert not TopicLives({}).reused_names
    for name in (
        ONCE.at_offset("u", 3),
        ONCE.of_id("u", "A"),
        ONCE.at_time("u", 3, 4),
    ):
        assert name == "u"


@pytest.mark.parametrize(("offset", "name"), [(49, "t@1"), (50, "t@2"), (79, "t@2"), (80, "t"), (99, "t")])
def test_a_row_of_the_metadata_log_is_of_the_topic_of_its_offset(offset: int, name: str) -> None:
    assert TWICE.at_offset("t", offset) == name


@pytest.mark.parametrize(("topic_id", "name"), [("A", "t@1"), ("B", "t@2"), ("C", "t"), (None, "t")])
def test_a_replica_is_of_the_topic_of_its_id(topic_id: str | None, name: str) -> None:
    assert TWICE.of_id("t", topic_id) == name


@pytest.mark.parametrize(
    ("asked", "answered", "name"),
    [(10, 99, "t@1"), (110, 120, "t"), (110, None, "t"), (99, 105, "t@?"), (105, 120, "t@?"), (10, None, "t@?")],
)
def test_a_request_around_the_deletion_may_be_of_either_topic(asked: int, answered: int | None, name: str) -> None:
    assert ONCE.at_time("t", asked, answered) == name


@pytest.mark.parametrize(
    ("asked", "answered", "name"), [(120, 150, "t@2"), (10, 150, "t@?"), (120, 205, "t@?"), (215, 220, "t")]
)
def test_a_request_between_two_deletions_is_of_the_second_topic(asked: int, answered: int, name: str) -> None:
    assert TWICE.at_time("t", asked, answered) == name


@pytest.mark.parametrize(("known_ns", "unaware"), [(110, [3]), (110, None), (None, [])])
def test_where_a_running_broker_may_not_know_the_new_topic_no_later_time_decides(
    known_ns: int | None, unaware: list[int] | None
) -> None:
    lives = TopicLives.of_steps([made(50, 100, known_ns, unaware=unaware)])
    assert lives.at_time("t", 500, 510) == "t@?"


def test_a_step_without_an_answer_may_have_made_the_topic_and_one_that_was_refused_has_not() -> None:
    silent = StepEntry(
        index=0, step="create-topic", parameters={"topic": "t"}, proof={"since": 50, "asked_ns": 100, "probe": "failed"}
    )
    lives = TopicLives.of_steps([silent])
    assert lives.at_time("t", 500, 510) == "t@?"
    assert lives.of_id("t", "A") == "t"
    assert not TopicLives.of_steps([made(50, 100, 110, answer="TOPIC_ALREADY_EXISTS")]).reused_names


@pytest.mark.parametrize("answer", ["REQUEST_TIMED_OUT", "NOT_CONTROLLER", "UNKNOWN"])
def test_an_error_after_which_the_topic_may_exist_is_no_refusal(answer: str) -> None:
    proof = {"since": 50, "asked_ns": 100, "answer": answer}
    lives = TopicLives.of_steps([StepEntry(index=0, step="create-topic", parameters={"topic": "t"}, proof=proof)])
    assert lives.at_time("t", 10, 99) == "t@1"
    assert lives.at_time("t", 500, 510) == "t@?"


def test_names_say_what_they_are() -> None:
    assert [name_of(one) for one in ("t", "t@1", "t@?")] == ["t", "t", "t"]
    assert [is_deleted(one) for one in ("t", "t@1", "t@?")] == [False, True, True]
    assert [is_unknown(one) for one in ("t", "t@1", "t@?")] == [False, False, True]


def test_a_damaged_steps_file_tells_no_topics_apart(tmp_path: Path) -> None:
    (tmp_path / STEPS).write_text("{", "utf-8")
    assert not TopicLives.of_record(RecordFolder(tmp_path)).reused_names


def test_the_id_in_a_replicas_folder_is_read(tmp_path: Path) -> None:
    assert topic_id_in(tmp_path) is None
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: abc-_9\n", "utf-8")
    assert topic_id_in(tmp_path) == "abc-_9"


def test_each_topic_of_a_name_was_deleted_at_its_own_time() -> None:
    def deleted(effect_ns: int | None) -> StepEntry:
        return StepEntry(index=0, step="delete-topic", parameters={"topic": "t"}, effect_ns=effect_ns)

    assert deletion_times([deleted(90)]) == {"t": 90}
    assert deletion_times([deleted(90), made(50, 100, 110)]) == {"t@1": 90}
    again = [deleted(90), made(50, 100, 110), deleted(190), made(80, 200, 210), deleted(290)]
    assert deletion_times(again) == {"t@1": 90, "t@2": 190, "t": 290}
    # Nothing proves the deletion, but the topic was made again.
    assert deletion_times([deleted(None), made(50, 100, 110)]) == {"t@1": 100}
