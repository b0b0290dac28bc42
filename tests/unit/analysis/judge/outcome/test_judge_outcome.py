"""The outcome of a run: contradicted over inconclusive over as-predicted, each with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_records import ELR_ON, NO_LOSS, by_name, healthy_story, last_replica_standing, ns

from ebbtide.record.verdict import AnomalyCount, Counts, Verdict

LOSS = 'loss = { committed = "some", cause = "last-replica-standing" }'

SEND = {"topic": "t", "partition": 0, "value": 1, "producer": 1, "sequence": 1, "acks": -1, "status": "unknown"}
POLL = {
    "topic": "t",
    "partition": 0,
    "offset": 1,
    "value": 1,
    "consumer": 1,
    "session": 1,
    "isolation": "read_uncommitted",
    "polled_ns": ns(3),
}


def reasons(verdict: Verdict) -> str:
    return "\n".join(verdict.why)


def test_a_predicted_loss_that_came_is_as_predicted(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.predict(LOSS)
    verdict = story.judge()
    assert verdict.outcome == "as-predicted", verdict.why
    assert "predicted: some loss of committed records, cause last-replica-standing (a clause)" in verdict.why
    assert any(
        sentence.startswith("seen: of 1,000 acked records 1,000 committed (1,000 by last") for sentence in verdict.why
    )


def test_the_prediction_turned_round_is_contradicted(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.predict(NO_LOSS)
    verdict = story.judge()
    assert verdict.outcome == "contradicted"
    assert verdict.why[0] == "predicted no loss of committed records, seen 1,000 lost"


def test_a_loss_of_another_cause_than_predicted_is_contradicted(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.predict('loss = { committed = "some", cause = "unclean-election" }')
    assert "seen 1,000 by last-replica-standing" in reasons(story.judge())
    assert story.judge().outcome == "contradicted"


def test_a_loss_that_must_be_shown_and_did_not_happen_is_inconclusive(tmp_path: Path) -> None:
    verdict = healthy_story(tmp_path, LOSS).judge()
    assert verdict.outcome == "inconclusive"
    assert "the run did not show it" in verdict.why[0]


def test_fewer_lost_than_predicted_is_inconclusive(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.predict('loss = { committed = "some", at_least = 2000 }')
    assert story.judge().outcome == "inconclusive"


def test_so_is_none_of_them(tmp_path: Path) -> None:
    verdict = healthy_story(tmp_path, "loss = { at_least = 500 }").judge()
    assert verdict.outcome == "inconclusive"
    assert "predicted a loss of at least 500 records, seen 0: the run did not show it" in verdict.why


def test_a_quiet_run_is_as_predicted(tmp_path: Path) -> None:
    assert healthy_story(tmp_path).judge().outcome == "as-predicted"


def test_a_fault_without_proof_is_inconclusive(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.step(5, "kill", 2, proven=False)
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert verdict.why[0] == "step 1 (kill of 2) has no proof that it took effect"


def test_a_probe_that_failed_is_no_proof(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.step(5, "kill", 2, probe="failed")
    assert story.judge().outcome == "inconclusive"


def test_a_step_that_never_fired_is_inconclusive(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.predict(NO_LOSS, steps=2)
    assert "never fired" in story.judge().why[0]
    assert story.judge().outcome == "inconclusive"


def test_a_violation_wins_over_a_fault_without_proof(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.step(5, "kill", 2, proven=False)
    story.state(6, isr=[2, 3])
    verdict = story.judge()
    assert verdict.outcome == "contradicted"
    assert "leader-in-isr" in verdict.why[0]
    assert any("no proof" in sentence for sentence in verdict.why)


def test_an_unproven_power_loss_excuses_the_loss_and_leaves_the_run_inconclusive(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    assert story.steps is not None
    story.steps[1:] = []
    story.power_loss(12, 1, proven=False)
    story.predict(LOSS)
    verdict = story.judge()
    assert verdict.losses[0].cause == "last-replica-standing"
    assert verdict.outcome == "inconclusive"


def test_no_final_read_is_inconclusive(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.unknown["lost"] = "there was no final read"
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert any("no final read" in sentence for sentence in verdict.why)


def test_losses_that_are_not_known_are_not_said_to_be_none(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, LOSS)
    story.unknown["lost"] = "there was no final read"
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert "none was lost" not in reasons(verdict)
    assert reasons(verdict).count("it is not known how many of") == 1


def test_no_scenario_to_compare_with_is_inconclusive(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    (tmp_path / "scenario.toml").unlink()
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert verdict.why[0] == "no scenario to compare with: scenario.toml is missing"


def test_an_unreadable_scenario_is_inconclusive_and_the_rest_still_judged(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    (tmp_path / "scenario.toml").write_text("name = ")
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert "not TOML" in verdict.why[0]
    assert verdict.losses[0].cause == "last-replica-standing"


def test_no_scenario_does_not_hide_a_violation(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path, kafka="4.1.0", features=ELR_ON)
    assert story.judge().outcome == "contradicted"


def test_a_release_that_the_scenario_says_nothing_about_is_inconclusive(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.change(kafka="3.2.0")
    assert "predicts nothing for Kafka 3.2.0" in story.judge().why[0]
    assert story.judge().outcome == "inconclusive"


def test_a_prediction_narrowed_by_a_feature_level_fits_only_that_level(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.predict(NO_LOSS + '\nfeatures = { "eligible.leader.replicas.version" = 1 }', steps=1)
    assert story.judge().outcome == "inconclusive"
    story.change(features={"eligible.leader.replicas.version": 1})
    assert story.judge().outcome == "as-predicted"


def test_an_election_from_the_elr_that_was_predicted_and_did_not_come_is_contradicted(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, "elected_from_elr = true")
    assert story.judge().outcome == "contradicted"
    story.step(5, "kill", 2, proven=False)
    assert story.judge().outcome == "inconclusive"


def test_an_election_from_the_elr_that_was_ruled_out_is_contradicted(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, "elected_from_elr = false")
    story.change(kafka="4.1.0", features=ELR_ON)
    story.state(5, isr=[1], elr=[2])
    story.state(6, leader=-1, isr=[], elr=[1, 2])
    assert story.judge().outcome == "as-predicted"
    story.state(7, leader=2, isr=[2], elr=[1])
    assert story.judge().outcome == "contradicted"


def test_a_high_watermark_is_held_against_the_prediction(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.predict(LOSS + '\nhw_regression = "some"')
    story.hw(9, 1, 0, 1000)
    assert "predicted that the HW goes back, but it did not" in story.judge().why[0]
    assert story.judge().outcome == "inconclusive"
    story.regress(1000, 0, epochs=(0, 2), at_s=(9, 22))
    assert story.judge().outcome == "as-predicted"
    story.predict(LOSS + '\nhw_regression = "none"')
    assert story.judge().outcome == "contradicted"


def test_an_unpredicted_anomaly_is_contradicted(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, 'anomalies = "none"')
    story.anomalies.append(AnomalyCount(kind="duplicate", topic="t", partition=0, count=3))
    assert story.judge().why[0] == "predicted no anomaly, seen 3 duplicated records"
    assert story.judge().outcome == "contradicted"


def test_what_a_group_passed_over_is_an_anomaly_unless_the_prediction_allows_it(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, 'anomalies = "none"')
    story.anomalies.append(AnomalyCount(kind="passed-over", topic="t", partition=0, count=306))
    words = '306 records that a group passed over (passed_over = "any" allows that)'
    assert story.judge().why[0] == f"predicted no anomaly, seen {words}"
    assert story.judge().outcome == "contradicted"
    allowing = 'anomalies = "none"\npassed_over = "any"'
    story.predict(allowing, steps=1)
    verdict = story.judge()
    assert verdict.outcome == "as-predicted"
    assert any("no other anomaly but records that a group passed over" in why for why in verdict.why)
    story.anomalies.clear()
    story.unknown["passed-over"] = "clients is missing"
    assert story.judge().outcome == "as-predicted"
    story.anomalies.append(AnomalyCount(kind="duplicate", topic="t", partition=0, count=3))
    assert story.judge().outcome == "contradicted", "every other kind is ruled out"


def test_an_anomaly_that_cannot_be_decided_is_inconclusive_only_if_predicted_absent(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, 'anomalies = "none"')
    story.unknown["unseen"] = "no polls"
    assert story.judge().outcome == "inconclusive"
    story.predict(NO_LOSS, steps=1)
    assert story.judge().outcome == "as-predicted"


def test_hw_observations_are_needed_only_where_the_scenario_speaks_of_the_hw(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.unknown["hw-regression"] = "no watermarks"
    assert story.judge().outcome == "as-predicted"
    story.predict(NO_LOSS + '\nhw_regression = "none"', steps=1)
    assert story.judge().outcome == "inconclusive"


def test_no_timeline_is_inconclusive_even_if_nothing_was_lost(tmp_path: Path) -> None:
    assert healthy_story(tmp_path).judge(missing=("partitions",)).outcome == "inconclusive"


def test_no_steps_file_is_inconclusive_where_steps_were_planned(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.steps = None
    assert "steps.jsonl is missing" in reasons(story.judge())
    assert story.judge().outcome == "inconclusive"


def test_a_fact_that_must_have_come_about_and_did_not_leaves_the_run_inconclusive(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, 'exercised = ["elr-non-empty"]')
    story.change(kafka="4.1.0", features=ELR_ON)
    assert story.judge().outcome == "inconclusive"
    assert "predicted elr-non-empty, but there were none: the run did not show it" in story.judge().why
    story.state(5, isr=[1], elr=[2])
    assert story.judge().outcome == "as-predicted"


def test_a_fact_that_must_never_come_about_and_did_is_contradicted(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, 'never = ["elr-non-empty"]')
    story.change(kafka="4.1.0", features=ELR_ON)
    assert story.judge().outcome == "as-predicted"
    story.state(5, isr=[1], elr=[2])
    assert story.judge().why[0] == "predicted no elr-non-empty, seen 1"


@pytest.mark.parametrize(
    ("fact", "lacking"),
    [
        ("hw-advanced-below-min-isr", "hw-observed-below-min-isr"),
        ("read-while-alter-partition-held", "hw-observed-while-alter-partition-held"),
        ("elections-while-recovering", "recovering"),
    ],
)
def test_a_fact_that_must_never_come_about_in_a_stretch_says_nothing_where_there_was_none(
    tmp_path: Path, fact: str, lacking: str
) -> None:
    story = healthy_story(tmp_path, f'never = ["{fact}"]')
    story.hw(3, 1, 0, 100)
    story.tables["polls"].append(POLL)
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert f"predicted no {fact}, but there was no {lacking}, so there could be none" in verdict.why[0]


def test_a_fact_that_did_not_come_about_in_a_stretch_that_was_seen_is_as_predicted(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, 'never = ["hw-advanced-below-min-isr"]')
    story.state(10, isr=[1])
    story.hw(11, 1, 0, 100)
    assert story.judge().outcome == "inconclusive"
    story.hw(12, 1, 0, 100)
    assert story.judge().outcome == "as-predicted"
    story.hw(13, 1, 0, 101)
    assert story.judge().outcome == "contradicted"


def test_that_nothing_was_acked_in_a_stretch_says_nothing_where_nothing_was_sent_in_it(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, 'never = ["acked-below-min-isr-acks-all"]')
    story.state(10, isr=[1])
    story.tables["sends"].append(SEND | {"sent_ns": ns(5), "done_ns": ns(6)})
    assert story.judge().outcome == "inconclusive"
    story.tables["sends"].append(SEND | {"sent_ns": ns(15)})
    assert story.judge().outcome == "as-predicted"


@pytest.mark.parametrize("key", ["exercised", "never"])
def test_a_fact_that_no_run_has_is_neither_seen_nor_ruled_out(tmp_path: Path, key: str) -> None:
    verdict = healthy_story(tmp_path, f'{key} = ["elr-nonempty"]').judge()
    assert verdict.outcome == "inconclusive"
    assert "the coverage fact elr-nonempty, which is not known of this run: known are clean-stops" in verdict.why[0]


def test_what_rests_on_registrations_is_not_ruled_out_without_them(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, 'never = ["brokers-fenced"]')
    assert story.judge().outcome == "inconclusive"
    story.broker(0, 1)
    assert story.judge().outcome == "as-predicted"


def test_a_run_that_ended_before_it_knew_its_feature_levels_is_held_to_no_prediction_that_depends_on_them(
    tmp_path: Path,
) -> None:
    story = healthy_story(tmp_path, NO_LOSS + '\nfeatures = { "eligible.leader.replicas.version" = 1 }')
    story.change(features={}, status="failed", failure="no room")
    assert "with the feature levels unknown" in reasons(story.judge())


def test_a_known_bug_is_contradicted_all_the_same_and_named_unless_there_is_more(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.change(kafka="4.1.0", features=ELR_ON)
    bug = 'known_bug = "KAFKA-1"'
    violates = 'violates = ["no-committed-loss-unless-allowed", "unclean-broker-leaves-isr-and-elr"]'
    story.predict(f"{bug}\n{violates}")
    assert story.judge().outcome == "contradicted"
    assert "known of this release: KAFKA-1" in story.judge().why
    too_few = 'violates = ["no-committed-loss-unless-allowed"]'
    for more in (f"{NO_LOSS}\n{violates}", f"elected_from_elr = true\n{violates}", too_few):
        story.predict(f"{more}\n{bug}")
        assert story.judge().outcome == "contradicted"
        assert "known of this release: KAFKA-1" not in story.judge().why, more


def test_a_run_that_acked_nothing_had_nothing_to_lose_and_proves_nothing(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.counts = Counts(sends=1000, acked=0, polls=0)
    assert story.judge().outcome == "inconclusive"
    assert "no record was acked: the run had nothing to lose" in story.judge().why


def test_a_run_whose_records_all_went_with_acks_0_shows_nothing_of_acked_ones(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.counts = Counts(sends=2, acked=2, polls=2)
    story.tables["sends"] = [
        SEND | {"value": value, "acks": 0, "status": "acked", "sent_ns": ns(2)} for value in (1, 2)
    ]
    judged = story.judge()
    assert judged.outcome == "inconclusive"
    assert by_name(judged)["no-committed-loss-unless-allowed"] == "not-exercised"


def test_the_first_reason_says_why_there_was_no_final_read(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.unknown["lost"] = "there was no final read"
    failure = "the cluster did not settle, so there is no final read: waited 90 s for t-0; last seen: leader none"
    story.change(failure=failure, final_consumer=None, final_offsets={})
    verdict = story.judge()
    assert (verdict.outcome, verdict.why[0]) == ("inconclusive", failure)
