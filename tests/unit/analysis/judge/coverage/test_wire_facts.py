"""A held Fetch answer counts only where nothing but its leader epoch shows that it is out of date (KAFKA-18991)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from judge_records import Story, ns

from analysis.judge.coverage.wire_facts import FACT

DIVERGING = {"topic": "an-id", "partition": 0, "epoch": 0, "end_offset": 40, "fetch_offset": 70}


def wire_event(at_s: float, event: str, **more: Any) -> dict[str, Any]:
    """An event of the Fetch answer that broker 2 sent to broker 1."""
    return {"at_ns": ns(at_s), "node": 1, "event": event, "rule": 1, "peer": 2, "connection": 3} | more


HELD = wire_event(2, "held", correlation=4, diverging=[DIVERGING])
FORWARDED = wire_event(6, "forwarded", correlation=4)


def led_again(record: Path, *events: dict[str, Any], hw: int = 70, leader: int = 2, **last: Any) -> Story:
    """Broker 2 leads, then broker 3, then broker 2 again; an answer of the first time arrives last."""
    (record / "wire.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    story = Story(record)
    story.state(1, leader=2)
    story.state(3, leader=3)
    story.state(4, leader=leader, **last)
    story.hw(3.5, 3, 1, 50)
    story.hw(5, leader, 2, hw)
    story.hw(8, leader, 2, 99)
    return story


def counted(story: Story, **missing: Any) -> int | None:
    """How many answers counted; None if that is not known."""
    return story.judge(**missing).coverage.get(FACT)


def test_an_answer_of_an_earlier_epoch_of_the_same_leader_counts(tmp_path: Path) -> None:
    assert counted(led_again(tmp_path, HELD, FORWARDED)) == 1


def test_a_run_without_a_wire_rule_counts_none(tmp_path: Path) -> None:
    story = led_again(tmp_path)
    (tmp_path / "wire.jsonl").unlink()
    assert counted(story) == 0


@pytest.mark.parametrize(
    "events",
    [
        (HELD,),
        (HELD, wire_event(6, "abandoned", correlation=4)),
        (HELD, wire_event(6, "forwarded", correlation=5)),
        (wire_event(2, "held", correlation=4), FORWARDED),
        (wire_event(2, "held", correlation=4, diverging=[DIVERGING | {"partition": 1}]), FORWARDED),
        (wire_event(2, "held", correlation=4, diverging=[DIVERGING | {"fetch_offset": None}]), FORWARDED),
        (HELD, wire_event(2.5, "forwarded", correlation=4)),
    ],
    ids=["kept", "lost", "another", "ordinary", "other-partition", "position-unknown", "before-the-election"],
)
def test_an_answer_that_does_not_arrive_late_or_tells_nothing_does_not_count(
    tmp_path: Path, events: tuple[dict[str, Any], ...]
) -> None:
    assert counted(led_again(tmp_path, *events)) == 0


@pytest.mark.parametrize(
    "now",
    [{"leader": 3}, {"isr": [2, 3]}, {"hw": 71}, {"hw": 69}],
    ids=["another-leader", "follower-not-in-the-isr", "log-went-on", "log-ends-before"],
)
def test_an_answer_that_a_follower_ignores_for_another_reason_does_not_count(
    tmp_path: Path, now: dict[str, Any]
) -> None:
    assert counted(led_again(tmp_path, HELD, FORWARDED, **now)) == 0


def test_an_answer_under_one_and_the_same_epoch_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "wire.jsonl").write_text(json.dumps(HELD) + "\n" + json.dumps(FORWARDED))
    story = Story(tmp_path)
    story.state(1, leader=2)
    story.hw(5, 2, 0, 70)
    assert counted(story) == 0


@pytest.mark.parametrize("damaged", ['{"at_ns": 1', "[" * 100_000])
def test_a_record_that_cannot_tell_leaves_the_fact_out(tmp_path: Path, damaged: str) -> None:
    story = led_again(tmp_path, HELD, FORWARDED)
    assert counted(story, missing=("partitions",)) is None
    (tmp_path / "partitions.parquet").unlink(missing_ok=True)
    (tmp_path / "wire.jsonl").write_text(damaged)
    assert counted(story) is None


TOPIC_ID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
AS_KAFKA_PRINTS = "a6e4EJ2tEdGAtADAT9QwyA"
OF_T = HELD | {"diverging": [DIVERGING | {"topic": TOPIC_ID}]}


def with_a_second_topic(record: Path, topic_ids: dict[str, str], held: dict[str, Any] = OF_T) -> Story:
    """Topic u has partition 0 too, whose leader stays."""
    story = led_again(record, held, FORWARDED)
    story.tables["partitions"].append(story.tables["partitions"][0] | {"topic": "u", "metadata_offset": 900})
    story.manifest = msgspec.structs.replace(story.manifest, topic_ids=topic_ids)
    return story


@pytest.mark.parametrize(
    ("topic_ids", "count"),
    [({AS_KAFKA_PRINTS: "t", "b": "u"}, 1), ({AS_KAFKA_PRINTS: "u", "b": "t"}, 0), ({}, None)],
    ids=["of-the-topic", "of-the-other-topic", "not-known"],
)
def test_an_answer_counts_for_the_topic_that_its_id_names(
    tmp_path: Path, topic_ids: dict[str, str], count: int | None
) -> None:
    assert counted(with_a_second_topic(tmp_path, topic_ids)) == count


@pytest.mark.parametrize(("topic", "count"), [("t", 1), ("u", 0)])
def test_an_answer_before_topic_ids_counts_for_the_topic_that_it_names(tmp_path: Path, topic: str, count: int) -> None:
    held = HELD | {"diverging": [DIVERGING | {"topic": topic}]}
    assert counted(with_a_second_topic(tmp_path, {}, held)) == count
