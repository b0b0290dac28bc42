"""What brokers described, laid onto the metadata log: only what the log never had, or a step back, is a violation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from judge_records import ELR_ON, Story, by_name, ns

CLAUSE = "api-agrees-with-log"


def story_of_shrinking_isr(record: Path, **setup: Any) -> Story:
    """ISR 1 2 3, then 1 2, then 1 with ELR 2; broker 1 goes, and is the last known leader."""
    story = Story(record, **({"kafka": "4.3.1", "features": ELR_ON} | setup))
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    story.state(10, isr=[1, 2])
    story.state(20, isr=[1], elr=[2])
    story.state(30, isr=[], elr=[1, 2], last_known_elr=[1], leader=-1)
    (record / "evidence.json").write_text(
        '{"timeline": {"controller": null, "how": "", "end_offset": 0, "logs": [], "missing": []}}'
    )
    return story


def describe(story: Story, at_s: float, broker: int, isr: list[int], **more: Any) -> None:
    """One answer of a broker; leader epoch 0 and an empty ELR unless given."""
    row: dict[str, Any] = {
        "topic": "t",
        "partition": 0,
        "broker": broker,
        "leader": 1,
        "leader_epoch": 0,
        "isr": isr,
        "elr": [],
        "last_known_elr": [],
        "asked_ns": ns(at_s),
        "at_ns": ns(at_s + 0.01),
    }
    story.tables["described"].append(row | more)


def evidence(story: Story) -> dict[str, Any]:
    (found,) = [one for one in story.judge().properties if one.name == CLAUSE]
    return dict(found.evidence[0]) if found.evidence else {}


def test_answers_that_follow_the_log_agree_however_far_a_broker_lags(tmp_path: Path) -> None:
    story = story_of_shrinking_isr(tmp_path)
    describe(story, 5, 2, [3, 2, 1])
    describe(story, 25, 2, [1, 2, 3])
    describe(story, 26, 3, [1], elr=[2])
    describe(story, 50, 2, [1, 2])
    describe(story, 51, 3, [], elr=[2, 1], last_known_elr=[1], leader=-1, leader_epoch=1)
    verdict = story.judge()
    assert by_name(verdict)[CLAUSE] == "holds"
    facts = {name: count for name, count in verdict.coverage.items() if name.startswith("described-")}
    assert facts == {
        "described-answers": 5,
        "described-elr": 2,
        "described-last-known-elr": 1,
        "described-as-in-force": 3,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"elr": [3]},
        {"elr": []},
        {"last_known_elr": [1]},
        {"isr": [2]},
        {"leader_epoch": 1},
    ],
)
def test_an_answer_that_the_log_never_had_is_a_violation(tmp_path: Path, wrong: dict[str, Any]) -> None:
    story = story_of_shrinking_isr(tmp_path)
    describe(story, 25, 2, **{"isr": [1], "elr": [2], **wrong})
    assert by_name(story.judge())[CLAUSE] == "violated"
    assert evidence(story)["wrong"] == "the partition never was in that state"


@pytest.mark.parametrize("status", ["interrupted", "failed"])
def test_an_answer_after_the_end_of_the_copy_of_a_log_is_unknown_and_one_before_it_is_not(
    tmp_path: Path, status: Any
) -> None:
    story = story_of_shrinking_isr(tmp_path)
    story.manifest = msgspec.structs.replace(story.manifest, status=status)
    describe(story, 31, 2, [3], leader_epoch=2)
    assert by_name(story.judge())[CLAUSE] == "unknown"
    assert evidence(story)["why"] == "the copy of the metadata log may end before this answer"
    describe(story, 25, 3, [3], leader_epoch=2)
    assert by_name(story.judge())[CLAUSE] == "violated"


def test_a_state_described_before_it_was_written_is_a_violation(tmp_path: Path) -> None:
    story = story_of_shrinking_isr(tmp_path)
    describe(story, 19, 2, [1], elr=[2])
    assert by_name(story.judge())[CLAUSE] == "violated"


def test_the_same_answer_is_no_violation_where_the_clock_is_cut_to_milliseconds(tmp_path: Path) -> None:
    story = story_of_shrinking_isr(tmp_path)
    describe(story, 19.9895, 2, [1], elr=[2])
    assert by_name(story.judge())[CLAUSE] == "holds"


def test_a_broker_that_goes_back_to_an_earlier_state_is_a_violation_and_another_broker_is_none(tmp_path: Path) -> None:
    story = story_of_shrinking_isr(tmp_path)
    describe(story, 25, 2, [1], elr=[2])
    describe(story, 26, 3, [1, 2])
    assert by_name(story.judge())[CLAUSE] == "holds"
    describe(story, 27, 2, [1, 2])
    assert evidence(story)["wrong"] == "the broker had described a later state before"


def test_a_broker_that_started_again_in_between_may_go_back(tmp_path: Path) -> None:
    story = story_of_shrinking_isr(tmp_path)
    describe(story, 25, 2, [1], elr=[2])
    story.broker(40, 2)
    describe(story, 45, 2, [1, 2])
    assert by_name(story.judge())[CLAUSE] == "holds"


def test_an_elr_that_the_broker_does_not_state_is_not_compared(tmp_path: Path) -> None:
    story = story_of_shrinking_isr(tmp_path)
    describe(story, 25, 2, [1], elr=None, last_known_elr=None)
    assert by_name(story.judge())[CLAUSE] == "holds"


def test_states_that_look_alike_are_taken_as_early_as_they_fit(tmp_path: Path) -> None:
    story = Story(tmp_path, kafka="4.3.1", features=ELR_ON)
    for at_s, isr in ((1, [1, 2, 3]), (10, [1, 2]), (20, [1, 2, 3]), (30, [1])):
        story.state(at_s, isr=isr)
    for at_s, isr in ((40, [1, 2, 3]), (41, [1, 2]), (42, [1, 2, 3]), (43, [1])):
        describe(story, at_s, 2, isr)
    assert by_name(story.judge())[CLAUSE] == "holds"


def test_without_answers_it_is_unknown_and_a_run_can_still_be_as_predicted(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    assert by_name(story.judge())[CLAUSE] == "unknown"
    story.predict('loss = { committed = "none" }')
    assert story.judge().outcome == "as-predicted"


def test_a_release_whose_brokers_cannot_be_asked_is_not_exercised(tmp_path: Path) -> None:
    assert by_name(story_of_shrinking_isr(tmp_path, kafka="3.7.2", features={}).judge())[CLAUSE] == "not-exercised"


def test_a_metadata_log_with_gaps_leaves_a_mismatch_unknown(tmp_path: Path) -> None:
    story = story_of_shrinking_isr(tmp_path)
    (tmp_path / "evidence.json").unlink()
    describe(story, 25, 2, [2])
    assert by_name(story.judge())[CLAUSE] == "unknown"
