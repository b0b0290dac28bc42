"""A cluster that was only watched: what it lost is named, and nobody is accused of what no table shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from judge_records import ELR_ON, Story, by_name, last_replica_standing, whole_log

from analysis.record.clock_steps import CLOCKS_AGREE_NS
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import FOREIGN, WatchFacts
from ebbtide.record.steps import StepEntry
from ebbtide.record.verdict import Verdict
from ebbtide.releases.feature_levels import newest_metadata_version

NO_LOSS = "no-committed-loss-unless-allowed"


def watched(story: Story, *, clock_ms: int | None = 3, why_log_ends: str | None = None) -> Story:
    """The same story, seen from outside: nobody knows of its faults."""
    story.steps = []
    story.change(runtime=FOREIGN, watch=WatchFacts(why_log_ends=why_log_ends, clock_distance_ms=clock_ms))
    return story


def without_disk_loss(record: Path) -> Story:
    """A leader of the ISR lacks committed records, and no step took them from its disk."""
    story = last_replica_standing(record, kafka="4.1.0", features=ELR_ON)
    story.steps = []
    return story


def with_one_epoch(record: Path) -> Story:
    """The HW goes back under one leader epoch."""
    story = Story(record)
    story.broker(0, 1)
    story.state(1)
    story.regress(100, 50, epochs=(0, 0), at_s=(5, 6))
    story.hw(5, 1, 0, 100)
    return story


def with_no_election(record: Path) -> Story:
    """Committed records are lost, and the leader never changed."""
    story = Story(record)
    story.broker(0, 1)
    story.state(1)
    story.lose(0, 99, acked_s=5)
    return story


def with_acks_1_and_no_election(record: Path) -> Story:
    """Records acked by the leader alone are lost, though it stays."""
    story = Story(record)
    story.broker(0, 1)
    story.state(1)
    story.log(1, (0, 0, 9))
    whole_log(story)
    story.lose(10, 99, acked_s=5, acks=1, committed=False)
    return story


def with_uncleanly_elected_leader(record: Path) -> Story:
    """A leader from outside ISR and ELR, though no config allows it."""
    story = Story(record)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    story.state(10, isr=[1])
    story.state(12, leader=-1)
    story.state(15, leader=2, isr=[2], leader_recovery_state=1)
    story.lose(0, 99, acked_s=11)
    return story


ACCUSATIONS = (without_disk_loss, with_one_epoch, with_no_election, with_acks_1_and_no_election)


@pytest.mark.parametrize("make", [*ACCUSATIONS, with_uncleanly_elected_leader])
def test_what_would_be_a_violation_on_an_own_cluster_is_inconclusive_on_a_watched_one(
    tmp_path: Path, make: Callable[[Path], Story]
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "watched").mkdir()
    own, seen = make(tmp_path / "own"), watched(make(tmp_path / "watched"))
    for story in (own, seen):
        story.predict("")
    assert own.judge().outcome != "as-predicted"
    verdict = seen.judge()
    assert verdict.outcome == "inconclusive", verdict.why
    assert not [one for one in verdict.properties if one.status == "violated"]
    assert not [one for one in verdict.losses if one.cause == "unexplained"]


@pytest.mark.parametrize("make", ACCUSATIONS)
def test_these_stories_are_contradicted_on_an_own_cluster(tmp_path: Path, make: Callable[[Path], Story]) -> None:
    story = make(tmp_path)
    story.predict("")
    assert story.judge().outcome == "contradicted"


def test_the_loss_and_its_election_are_named_also_without_a_cause(tmp_path: Path) -> None:
    story = watched(without_disk_loss(tmp_path))
    story.predict("")
    why = "\n".join(story.judge().why)
    assert "of 1,000 acked records 1,000 committed" in why
    assert "election of broker 1, leader epoch 2" in why
    assert "nobody recorded what happened to this cluster, so whether a disk lost data is not known" in why
    assert "steps.jsonl" not in why


def test_a_loss_that_nobody_recorded_is_never_last_replica_standing_either(tmp_path: Path) -> None:
    verdict = watched(last_replica_standing(tmp_path)).judge()
    assert not verdict.losses
    assert by_name(verdict)[NO_LOSS] == "unknown"


def unclean_by_config(record: Path) -> Story:
    story = Story(record)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.config(0, "topic:t", "unclean.leader.election.enable", "true")
    story.state(1)
    story.state(10, isr=[1])
    story.state(15, leader=2, isr=[2], leader_recovery_state=1)
    story.lose(0, 99, acked_s=11)
    return story


def test_an_unclean_election_that_a_config_allowed_is_a_known_cause(tmp_path: Path) -> None:
    story = watched(unclean_by_config(tmp_path))
    story.predict("")
    verdict = story.judge()
    assert [one.cause for one in verdict.losses] == ["unclean-election"]
    assert verdict.outcome == "as-predicted", verdict.why


@pytest.mark.parametrize("clock_ms", [None, CLOCKS_AGREE_NS // 10**6 + 1])
def test_no_cause_is_known_where_the_clocks_cannot_be_compared(tmp_path: Path, clock_ms: int | None) -> None:
    story = watched(unclean_by_config(tmp_path), clock_ms=clock_ms)
    verdict = story.judge()
    assert not verdict.losses
    assert any("clock" in sentence for sentence in verdict.why)


@pytest.mark.parametrize(("kafka", "causes"), [("3.9.1", ["unclean-election"]), ("4.3.1", [])])
def test_no_cause_that_depends_on_the_release_is_known_where_brokers_of_another_one_ran(
    tmp_path: Path, kafka: str, causes: list[str]
) -> None:
    story = watched(unclean_by_config(tmp_path))
    story.change(kafka="3.9.1")
    story.broker(20, 3)
    story.tables["brokers"][-1]["metadata_version"] = newest_metadata_version(kafka)
    verdict = story.judge()
    assert [one.cause for one in verdict.losses] == causes
    assert any("brokers of several releases ran" in sentence for sentence in verdict.why) is not bool(causes)


def test_a_promise_of_the_user_that_is_broken_contradicts(tmp_path: Path) -> None:
    story = watched(without_disk_loss(tmp_path))
    story.predict('loss = { committed = "none" }')
    assert story.judge().outcome == "contradicted"


def test_a_quiet_watch_with_marks_is_as_predicted(tmp_path: Path) -> None:
    story = watched(Story(tmp_path))
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    story.steps = [mark("drained node 3")]
    story.predict("")
    assert story.judge().outcome == "as-predicted"


def mark(text: str) -> StepEntry:
    return StepEntry(
        index=0, step="mark", whom=text, fired_ns=1, effect_ns=1, proof={"probe": "ok"}, parameters={"text": text}
    )


def test_a_mark_proves_no_loss_of_a_disk(tmp_path: Path) -> None:
    story = watched(last_replica_standing(tmp_path))
    story.steps = [msgspec.structs.replace(mark("power-loss of broker 1"), nodes=(1,))]
    assert not story.judge().losses


def test_a_record_of_the_metadata_log_that_breaks_a_rule_is_still_a_violation(tmp_path: Path) -> None:
    story = watched(Story(tmp_path, kafka="4.1.0", features=ELR_ON))
    story.broker(0, 1)
    story.state(1)
    story.state(2, isr=[1, 2], elr=[2])
    story.predict("")
    verdict = story.judge()
    assert by_name(verdict)["isr-and-elr-disjoint"] == "violated"
    assert verdict.outcome == "contradicted"


def test_without_the_metadata_log_losses_are_counted_and_no_cause_is_known(tmp_path: Path) -> None:
    story = watched(without_disk_loss(tmp_path), why_log_ends="no --controllers were named")
    story.predict("")
    verdict: Verdict = story.judge(missing=("partitions", "brokers", "configs"))
    assert verdict.outcome == "inconclusive"
    assert any("1,000 committed" in sentence for sentence in verdict.why)
    assert any(sentence.startswith("no --controllers were named; so ") for sentence in verdict.why)


def test_a_log_that_begins_with_a_snapshot_lacks_nothing_of_a_topic_made_later(tmp_path: Path) -> None:
    from analysis.evidence.report import ControllerLog, TimelineReport, save

    story = watched(unclean_by_config(tmp_path))
    story.write()
    log = ControllerLog(controller=100, start_offset=5, end_offset=90, last_epoch=1, agreed_end_offset=90)
    save(
        RecordFolder(tmp_path),
        "timeline",
        TimelineReport(controller=100, how="x", end_offset=90, logs=(log,), missing=()),
    )
    assert [one.cause for one in story.judge().losses] == ["unclean-election"]
