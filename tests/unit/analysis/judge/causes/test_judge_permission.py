"""Who allowed an election, and what a disk or an election must have done for a cause to stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from judge_records import BEFORE_KIP_903, ELR_OFF, ELR_ON, TRANSITIONS, Story, by_name, cause_and_leader, whole_log
from stale_joins import stale_join

UNCLEAN = "unclean.leader.election.enable"
ELR_LEVEL = "eligible.leader.replicas.version"


def led_uncleanly(record: Path, *, kafka: str = "3.9.1", topic: str | None = "false") -> Story:
    """The ISR shrinks to broker 1, which is killed; broker 2 leads without the 100 records that only broker 1 had.

    The evidence is whole, and the scenario gives the controllers no property of their own.
    """
    story = Story(record, kafka=kafka)
    for broker in (1, 2, 3):
        story.broker(0, broker)
        story.broker(0.1, broker, "unfenced")
    story.config(0.5, "feature:metadata.version", "level", str(ELR_OFF["metadata.version"]))
    if topic is not None:
        story.config(1, "topic:t", UNCLEAN, topic)
    story.state(2)
    story.state(8, isr=[1])
    story.step(10, "kill", 1)
    story.state(13, leader=-1)
    story.broker(13, 1, "fenced")
    story.tables["brokers"][-1]["metadata_offset"] = story.tables["partitions"][-1]["metadata_offset"] + 1
    story.state(14, leader=2, isr=[2], leader_recovery_state=1)
    story.lose(0, 99, acked_s=9)
    whole_log(story)
    story.predict("")
    return story


def elect(story: Story, at_s: float | None, type_: str, partition: str = "t-0") -> None:
    """An optional elect step; `at_s` None: it never fired."""
    story.step(at_s or 0, "elect")
    assert story.steps is not None
    asked = msgspec.structs.replace(
        story.steps[-1], parameters={"optional": True, "partition": partition, "type": type_}
    )
    never: dict[str, Any] = {} if at_s is not None else {"fired_ns": None, "effect_ns": None, "proof": {}}
    story.steps[-1] = msgspec.structs.replace(asked, **never)


def test_an_unclean_election_that_nobody_allowed_is_a_violation(tmp_path: Path) -> None:
    verdict = led_uncleanly(tmp_path).judge()
    assert (cause_and_leader(verdict), verdict.outcome) == (("unexplained", 2, 2), "contradicted")
    assert by_name(verdict)[TRANSITIONS] == "violated"


@pytest.mark.parametrize(
    ("at_s", "type_", "partition"),
    [(3, "preferred", "t-0"), (None, "unclean", "t-0"), (13.5, "unclean", "t-1"), (20, "unclean", "t-0")],
    ids=["another kind", "never fired", "another partition", "later"],
)
def test_a_request_for_something_else_allows_no_unclean_election(
    tmp_path: Path, at_s: float | None, type_: str, partition: str
) -> None:
    story = led_uncleanly(tmp_path)
    elect(story, at_s, type_, partition)
    verdict = story.judge()
    assert (cause_and_leader(verdict)[0], by_name(verdict)[TRANSITIONS]) == ("unexplained", "violated")


@pytest.mark.parametrize("kafka", ["3.6.2", "3.9.1"])
def test_an_operator_may_ask_for_an_unclean_election_whatever_the_config(tmp_path: Path, kafka: str) -> None:
    story = led_uncleanly(tmp_path, kafka=kafka)
    elect(story, 13.5, "unclean")
    verdict = story.judge()
    assert (cause_and_leader(verdict)[0], by_name(verdict)[TRANSITIONS]) == ("unclean-election", "holds")
    assert verdict.outcome == "as-predicted"


def test_a_request_whose_type_an_old_record_does_not_have_may_have_been_an_unclean_one(tmp_path: Path) -> None:
    story = led_uncleanly(tmp_path)
    story.step(13.5, "elect")
    assert cause_and_leader(story.judge())[0] == "unclean-election"


@pytest.mark.parametrize("resource", ["topic:t", "cluster"])
def test_the_config_allows_unclean_elections_from_its_record_on(tmp_path: Path, resource: str) -> None:
    story = led_uncleanly(tmp_path, topic="true" if resource == "topic:t" else None)
    if resource == "cluster":
        story.tables["configs"].append({**story.tables["configs"][-1], "metadata_offset": 75})
        story.tables["configs"][-1] |= {"resource": "cluster", "name": UNCLEAN, "value": "true"}
    assert cause_and_leader(story.judge())[0] == "unclean-election"
    assert story.tables["configs"][-1]["name"] == UNCLEAN
    story.tables["configs"][-1]["metadata_offset"] = story.tables["partitions"][-1]["metadata_offset"] + 5
    assert cause_and_leader(story.judge())[0] == "unexplained"


def test_the_topics_own_config_counts_before_the_clusters(tmp_path: Path) -> None:
    story = led_uncleanly(tmp_path)
    story.tables["configs"].append({**story.tables["configs"][-1], "resource": "cluster", "value": "true"})
    assert cause_and_leader(story.judge())[0] == "unexplained"


def test_a_config_of_one_controller_allows_or_forbids_nothing_for_certain(tmp_path: Path) -> None:
    """It counts before the cluster's while that controller is the active one, and no table says which one is."""
    story = led_uncleanly(tmp_path, topic=None)
    story.tables["configs"].append(
        {**story.tables["configs"][-1], "resource": "broker:100", "name": UNCLEAN, "value": "true"}
    )
    verdict = story.judge()
    assert (verdict.losses, verdict.outcome) == ([], "inconclusive")


def test_before_3_9_no_config_allows_an_unclean_election(tmp_path: Path) -> None:
    """KAFKA-12670."""
    assert cause_and_leader(led_uncleanly(tmp_path, kafka="3.8.1", topic="true").judge())[0] == "unexplained"


@pytest.mark.parametrize(("value", "cause"), [("true", "unclean-election"), ("false", "unexplained")])
def test_where_the_log_sets_no_config_the_controllers_own_property_counts(
    tmp_path: Path, value: str, cause: str
) -> None:
    story = led_uncleanly(tmp_path, topic=None)
    with (tmp_path / "scenario.toml").open("a") as scenario:
        scenario.write(f'[cluster]\ncontroller_properties = {{ "{UNCLEAN}" = "{value}" }}\n')
    assert cause_and_leader(story.judge())[0] == cause


@pytest.mark.parametrize("lacking", ["scenario.toml", "steps.jsonl", "configs.parquet", "evidence.json"])
def test_where_the_evidence_of_a_permission_is_missing_kafka_is_not_blamed(tmp_path: Path, lacking: str) -> None:
    story = led_uncleanly(tmp_path, topic=None)
    if lacking == "steps.jsonl":
        story.steps = None
    elif lacking != "configs.parquet":
        (tmp_path / lacking).unlink()
    verdict = story.judge(missing=("configs",) if lacking == "configs.parquet" else ())
    assert (verdict.losses, verdict.outcome) == ([], "inconclusive")


def led_as_last_known_leader(record: Path, features: dict[str, int]) -> Story:
    """Brokers 1 and 2 lose power; broker 1 comes back and leads as the last known leader."""
    story = Story(record, kafka="4.1.0", features=features)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.config(0.5, "topic:t", UNCLEAN, "false")
    story.state(1)
    story.state(4, isr=[1, 2])
    story.power_loss(10, 1)
    story.power_loss(10, 2)
    story.state(13, leader=-1, isr=[], last_known_elr=[1])
    story.broker(20, 1)
    story.state(21, leader=1, isr=[1], last_known_elr=[], leader_recovery_state=1)
    story.lose(0, 99, acked_s=5)
    whole_log(story)
    return story


@pytest.mark.parametrize(
    ("features", "causes"),
    [(ELR_ON, ["last-known-leader"]), ({}, []), (ELR_ON | {ELR_LEVEL: 0}, ["unexplained"])],
    ids=["on", "not known", "off"],
)
def test_the_last_known_leader_needs_the_elr_feature_and_no_config(
    tmp_path: Path, features: dict[str, int], causes: list[str]
) -> None:
    story = led_as_last_known_leader(tmp_path, features)
    assert [one.cause for one in story.judge().losses] == causes


def clean_restart(record: Path) -> Story:
    """A join before KIP-903 as after a replaced disk, but broker 2 was only stopped and started."""
    story = stale_join(record, BEFORE_KIP_903)
    assert story.steps is not None
    story.steps[0] = msgspec.structs.replace(story.steps[0], step="stop")
    return story


def test_a_join_after_a_clean_restart_lost_nothing_and_explains_nothing(tmp_path: Path) -> None:
    verdict = clean_restart(tmp_path).judge()
    assert (cause_and_leader(verdict)[0], verdict.outcome) == ("unexplained", "contradicted")
    assert by_name(verdict)["no-isr-join-with-an-old-broker-epoch"] != "violated"


def one_leader(record: Path) -> Story:
    """Broker 1 leads throughout; what it acked with acks=1 from offset 60 on is not in its log."""
    story = Story(record)
    story.state(1)
    story.log(1, (0, 0, 59))
    story.lose(60, 79, acked_s=8, acks=1, committed=False)
    whole_log(story)
    story.predict("")
    return story


def test_acks_1_lost_under_a_leader_that_never_changed_is_a_violation(tmp_path: Path) -> None:
    verdict = one_leader(tmp_path).judge()
    assert (cause_and_leader(verdict), verdict.outcome) == (("unexplained", None, None), "contradicted")
    assert not any("committed record" in reason for reason in verdict.why[:1])


def test_an_epoch_that_a_shrink_of_the_isr_raised_is_no_failover(tmp_path: Path) -> None:
    """Before metadata.version 3.6-IV0 (KAFKA-15021)."""
    story = one_leader(tmp_path)
    story.state(10, isr=[1, 2], leader_epoch=1)
    assert cause_and_leader(story.judge())[0] == "unexplained"


def test_acks_1_lost_by_the_disk_of_a_leader_that_led_on_is_not_kafkas(tmp_path: Path) -> None:
    story = one_leader(tmp_path)
    story.power_loss(9, 1, end=60)
    verdict = story.judge()
    assert (cause_and_leader(verdict)[0], verdict.outcome) == ("uncommitted-at-failover", "inconclusive")


def test_acks_1_lost_without_an_election_has_no_cause_where_steps_are_missing(tmp_path: Path) -> None:
    story = one_leader(tmp_path)
    story.steps = None
    verdict = story.judge()
    assert (verdict.losses, verdict.outcome) == ([], "inconclusive")
    assert any("20 lost records" in sentence for sentence in verdict.why)


def test_acks_1_that_every_later_leader_held_has_no_cause(tmp_path: Path) -> None:
    story = one_leader(tmp_path)
    story.state(10, leader=2, isr=[2, 3])
    story.tables["replicas"].clear()
    story.log(2, (0, 0, 79), (1, 80, 90))
    verdict = story.judge()
    assert (verdict.losses, verdict.outcome) == ([], "inconclusive")


def recover(story: Story, strategy: str, **proof: object) -> None:
    """An unclean recovery of t-0 between the loss of the leader and the next election."""
    story.step(13.5, "recover", **proof)
    assert story.steps is not None
    story.steps[-1] = msgspec.structs.replace(
        story.steps[-1], parameters={"partition": "t-0", "strategy": strategy, "optional": True}
    )


def elected_at(story: Story) -> dict[str, int]:
    """The record of the election, as the proof of a recovery has it."""
    return {"metadata_offset": story.tables["partitions"][-1]["metadata_offset"]}


def test_a_loss_by_an_election_that_a_recovery_caused_has_the_recovery_as_its_cause(tmp_path: Path) -> None:
    story = led_uncleanly(tmp_path)
    recover(story, "balanced", record=elected_at(story))
    verdict = story.judge()
    assert (cause_and_leader(verdict), by_name(verdict)[TRANSITIONS]) == (("unclean-recovery", 2, 2), "holds")
    assert verdict.outcome == "as-predicted"


def test_a_recovery_without_the_proof_of_an_election_may_have_asked_for_it_or_not(tmp_path: Path) -> None:
    story = led_uncleanly(tmp_path)
    recover(story, "proactive", elected_by_kafka=elected_at(story))
    verdict = story.judge()
    assert (verdict.losses, by_name(verdict)["no-committed-loss-unless-allowed"]) == ([], "unknown")
    assert "whether an unclean election was allowed" in " ".join(verdict.why)


def test_a_manual_recovery_asks_for_no_election(tmp_path: Path) -> None:
    story = led_uncleanly(tmp_path)
    recover(story, "manual")
    assert cause_and_leader(story.judge())[0] == "unexplained"
