"""Defects that a weaker prediction passes, and the sharper prediction of the catalogue does not.

Each test plants a defect in a record. The weaker prediction calls the run as-predicted.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest
from judge_records import ELR_ON, TRANSITIONS, Story, ns, whole_log

from ebbtide.record.manifest import FinalOffsets, ProducerSetup
from ebbtide.scenario import catalogue
from ebbtide.scenario.model import Prediction
from ebbtide.scenario.parse import load
from ebbtide.scenario.write import SCENARIO

SEND = {"topic": "t", "partition": 0, "producer": 1, "sequence": 1, "acks": 0, "status": "acked"}
POLL = {"topic": "t", "partition": 0, "consumer": 999, "session": 1, "isolation": "read_uncommitted"}
NO_LOSS = 'loss = { committed = "none" }'


def predictions(name: str) -> tuple[Prediction, ...]:
    """The predictions of a scenario of the catalogue."""
    return catalogue.find(name).predictions


def outcome(story: Story, prediction: str) -> tuple[str, str]:
    """The outcome under a prediction, and the first reason."""
    story.predict(prediction)
    verdict = story.judge()
    return verdict.outcome, verdict.why[0]


# acks=0


def with_acks_0(record: Path, *, read: int) -> Story:
    """Ten records were sent with acks=0, and the final read has the first `read` of them."""
    story = Story(record)
    story.state(1)
    story.change(
        producers={"1": ProducerSetup(acks=0)}, final_offsets={"t-0": FinalOffsets(log_start=0, high_watermark=read)}
    )
    for value in range(10):
        story.tables["sends"].append(SEND | {"value": value, "sent_ns": ns(2), "done_ns": ns(2)})
    for value in range(read):
        story.tables["polls"].append(POLL | {"offset": value, "value": value, "polled_ns": ns(50)})
    return story


@pytest.mark.parametrize(("read", "sharper"), [(10, "inconclusive"), (4, "as-predicted")])
def test_a_run_that_loses_nothing_of_acks_0_does_not_show_that_acks_0_loses(
    tmp_path: Path, read: int, sharper: str
) -> None:
    story = with_acks_0(tmp_path, read=read)
    assert outcome(story, NO_LOSS)[0] == "as-predicted"
    found, why = outcome(story, 'loss = { committed = "none", acks = { "0" = "some" } }')
    assert found == sharper
    assert ("predicted a loss of records sent with acks=0" in why) == (sharper == "inconclusive")


def test_a_loss_of_acks_0_is_contradicted_where_none_is_predicted(tmp_path: Path) -> None:
    story = with_acks_0(tmp_path, read=4)
    found = outcome(story, 'loss = { acks = { "0" = "none" } }')
    assert found == ("contradicted", "predicted no loss of records sent with acks=0, seen 6 lost")


def test_where_nothing_was_acked_with_an_acks_its_records_had_nothing_to_lose(tmp_path: Path) -> None:
    story = with_acks_0(tmp_path, read=10)
    assert outcome(story, 'loss = { acks = { "0" = "none" } }')[0] == "as-predicted"
    found = outcome(story, 'loss = { acks = { "1" = "none" } }')
    told = "predicted no loss of records sent with acks=1, but none was acked: nothing could be lost"
    assert found == ("inconclusive", told)


def test_without_a_whole_final_read_the_losses_of_acks_0_are_not_known(tmp_path: Path) -> None:
    story = with_acks_0(tmp_path, read=4)
    story.change(final_offsets={})
    found = outcome(story, 'loss = { acks = { "0" = "some" } }')
    assert found == ("inconclusive", "how many records sent with acks=0 were lost is not known")


def test_the_losses_of_each_acks_are_compared_apart(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(10, leader=2, isr=[2, 3])
    kept = SEND | {"producer": 2, "value": 0, "acks": -1, "offset": 0, "sent_ns": ns(2), "done_ns": ns(2)}
    story.tables["sends"].append(kept)
    story.lose(90, 99, acked_s=9, acks=1, committed=False)
    assert outcome(story, 'loss = { acks = { "1" = "some", all = "none" } }')[0] == "as-predicted"
    assert outcome(story, 'loss = { acks = { all = "some" } }')[0] == "inconclusive"
    assert outcome(story, 'loss = { acks = { "1" = "none" } }')[0] == "contradicted"


@pytest.mark.parametrize("name", ["acks-matrix-kill", "acks-matrix-partition", "acks-matrix-power-loss"])
def test_the_acks_matrix_asks_for_the_loss_of_each_acks(name: str) -> None:
    assert all(one.loss.acks == {"0": "some", "1": "some", "all": "none"} for one in predictions(name))


# holds


def test_a_run_without_a_brokers_answers_does_not_show_that_they_agree_with_the_log(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.broker(0, 1)
    story.state(1)
    sharper = f'{NO_LOSS}\nholds = ["api-agrees-with-log"]'
    assert outcome(story, NO_LOSS)[0] == "as-predicted"
    found, why = outcome(story, sharper)
    assert (found, "api-agrees-with-log" in why) == ("inconclusive", True)
    story.change(kafka="3.7.0")
    found, why = outcome(story, sharper)
    assert found == "inconclusive"
    assert why == "predicted that api-agrees-with-log holds, but it is not-exercised: the run did not show it"
    story.change(kafka="3.9.1")
    story.tables["described"].append(
        {"topic": "t", "partition": 0, "broker": 1, "leader": 1, "leader_epoch": 0, "isr": [1, 2, 3]}
        | {"asked_ns": ns(2), "at_ns": ns(3)}
    )
    assert outcome(story, sharper)[0] == "as-predicted"


@pytest.mark.parametrize(("name", "property_"), [("isr-churn", TRANSITIONS), ("api-agrees-with-log",) * 2])
def test_the_catalogue_requires_the_property_that_a_scenario_is_about(name: str, property_: str) -> None:
    assert all(property_ in one.holds for one in predictions(name))


# why an AlterPartition was refused

REJECTED = "INFO [QuorumController id=100] Rejecting AlterPartition request from node 1 for t-0 because "
REASONS = {
    "broker-epoch": "it specified ineligible replicas [2 (broker epoch mismatch: requested=12 VS expected=40)] "
    "in the new ISR [BrokerState(brokerId=1, brokerEpoch=9), BrokerState(brokerId=2, brokerEpoch=12)].",
    "fenced-replica": "it specified ineligible replicas [2 (fenced)] in the new ISR [1, 2].",
    "partition-epoch": "the current partition epoch is 4, not 3.",
    "recovering": "the ISR [1, 2] had more than one replica while the leader was still recovering from an unclean "
    "leader election RECOVERING.",
}


def controllers_log(record: Path, *lines: str) -> None:
    (record / "logs").mkdir(exist_ok=True)
    (record / "logs" / "controller-100.log.gz").write_bytes(gzip.compress("\n".join(lines).encode()))


@pytest.mark.parametrize("reason", REASONS)
def test_a_refusal_for_another_reason_does_not_show_the_check_of_broker_epochs(tmp_path: Path, reason: str) -> None:
    story = Story(tmp_path)
    story.state(1)
    controllers_log(tmp_path, "INFO else", REJECTED + REASONS[reason])
    assert outcome(story, 'exercised = ["alter-partitions-rejected"]')[0] == "as-predicted"
    for asked in REASONS:
        found = outcome(story, f'exercised = ["alter-partitions-rejected-for-{asked}"]')[0]
        assert found == ("as-predicted" if asked == reason else "inconclusive")


def test_a_stale_join_must_be_refused_for_the_broker_epoch() -> None:
    asked = [one.exercised for one in predictions("stale-isr-join-kip-903")]
    assert asked == [("alter-partitions-rejected-for-broker-epoch",)]


# a clean stop that is seen as clean

FOUND = "Skipping recovery of 1 logs from /data/kafka since clean shutdown file was found"
NOT_FOUND = "Recovering 1 logs from /data/kafka since no clean shutdown file was found"


def stopped_and_back(record: Path, *, elr_after: list[int], said: str) -> Story:
    """Broker 1, the last leader, stops cleanly at 10 s and registers again at 20 s."""
    story = Story(record, kafka="4.3.1", features=ELR_ON)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    story.state(5, isr=[1])
    story.step(10, "stop", 1)
    story.state(11, leader=-1, isr=[], elr=[1])
    if elr_after != [1]:
        story.state(20, elr=elr_after)
    story.broker(20, 1)
    if elr_after != [1]:
        # The batch of the registration begins with the partition's record.
        story.tables["brokers"][-1]["broker_epoch"] = story.tables["partitions"][-1]["metadata_offset"]
    (record / "logs").mkdir()
    lines = [f"2023-11-14T22:13:2{at}.000Z [main] INFO kafka.log.LogManager - {NOT_FOUND}" for at in (1,)]
    lines += [f"2023-11-14T22:13:41.000Z [main] INFO kafka.log.LogManager - {said}"]
    (record / "logs" / "broker-1.log").write_text("\n".join(lines) + "\n")
    return story


CLEAN = """exercised = ["clean-stops", "clean-registrations-still-eligible", "clean-shutdown-files-found"]
never = ["clean-registrations-taken-as-unclean"]"""


@pytest.mark.parametrize(
    ("elr_after", "said", "sharper"),
    [
        ([1], FOUND, "as-predicted"),
        ([], FOUND, "contradicted"),  # the controller took the stop as unclean
        ([1], NOT_FOUND, "contradicted"),  # the broker did
        ([1], "nothing of its logs", "inconclusive"),
    ],
)
def test_a_clean_stop_that_is_taken_as_unclean_is_not_as_predicted(
    tmp_path: Path, elr_after: list[int], said: str, sharper: str
) -> None:
    story = stopped_and_back(tmp_path, elr_after=elr_after, said=said)
    assert outcome(story, 'exercised = ["clean-stops"]')[0] == "as-predicted"
    assert outcome(story, CLEAN)[0] == sharper


def test_without_the_brokers_own_log_it_is_not_known_whether_the_file_was_found(tmp_path: Path) -> None:
    story = stopped_and_back(tmp_path, elr_after=[1], said=FOUND)
    (tmp_path / "logs" / "broker-1.log").unlink()
    facts = story.judge().coverage
    assert "clean-shutdown-files-found" not in facts
    assert facts["clean-registrations-still-eligible"] == 1


def test_a_stopped_broker_whose_disk_was_replaced_did_not_return_from_a_clean_stop(tmp_path: Path) -> None:
    story = stopped_and_back(tmp_path, elr_after=[1], said=FOUND)
    story.step(15, "wipe-disk", 1)
    assert story.judge().coverage["clean-registrations"] == 0


def test_a_topic_that_was_deleted_meanwhile_says_nothing_of_the_stop(tmp_path: Path) -> None:
    story = stopped_and_back(tmp_path, elr_after=[1], said=FOUND)
    story.step(15, "delete-topic")
    assert story.steps is not None
    story.steps[-1] = msgspec.structs.replace(story.steps[-1], parameters={"topic": "t"})
    assert story.judge().coverage["clean-registrations-still-eligible"] == 0


@pytest.mark.parametrize("name", ["clean-or-unclean", "rolling-restart", "dynamic-min-isr-clean-stop"])
def test_the_catalogue_asks_that_clean_stops_are_seen_as_clean(name: str) -> None:
    for one in predictions(name):
        assert "clean-shutdown-files-found" in one.exercised
        assert "clean-registrations-taken-as-unclean" in one.never


def test_a_shipped_prediction_reads_back_with_its_acks_and_properties(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.predict(f'loss = {{ acks = {{ all = "none" }} }}\nholds = ["{TRANSITIONS}"]')
    prediction = load(tmp_path / SCENARIO).predictions[0]
    assert (prediction.loss.acks, prediction.holds) == ({"all": "none"}, (TRANSITIONS,))


# what a leader answers while RECOVERING


def recovering(record: Path, *, answers: bool) -> Story:
    """Broker 2 is RECOVERING from 10 s to 20 s; a producer with acks=1 sends and a consumer reads."""
    story = Story(record, min_isr=1)
    story.state(1)
    story.state(10, leader=2, isr=[2], leader_recovery_state=1)
    story.state(20, isr=[2, 3], leader_recovery_state=0)
    done = ns(12.1) if answers else ns(20.5)
    story.tables["sends"].append(SEND | {"acks": 1, "value": 1, "sent_ns": ns(12), "done_ns": done})
    for at_s, hw in ((11, 100), (19, 101 if answers else 100)):
        story.hw(at_s, 2, 1, hw)
    return story


@pytest.mark.parametrize(("answers", "sharper"), [(True, "as-predicted"), (False, "inconclusive")])
def test_a_leader_that_answers_nobody_while_recovering_is_not_the_one_that_was_measured(
    tmp_path: Path, answers: bool, sharper: str
) -> None:
    story = recovering(tmp_path, answers=answers)
    assert outcome(story, 'exercised = ["recovering"]')[0] == "as-predicted"
    asked = 'exercised = ["recovering", "acked-while-recovering-acks-1", "hw-advanced-while-recovering"]'
    assert outcome(story, asked)[0] == sharper


def test_what_was_acked_before_the_leader_knew_of_its_state_does_not_count(tmp_path: Path) -> None:
    story = recovering(tmp_path, answers=True)
    story.tables["sends"].append(SEND | {"acks": 1, "value": 2, "sent_ns": ns(10.2), "done_ns": ns(10.3)})
    assert story.judge().coverage["acked-while-recovering-acks-1"] == 1


# a follower that only the controller does not hear


def follower_unheard(record: Path, *, joins_while_fenced: bool) -> Story:
    """Broker 3 is fenced from 10 s to 30 s."""
    story = Story(record)
    for broker in (1, 2, 3):
        story.broker(0, broker)
        story.broker(1, broker, "unfenced")
    story.config(2, "topic:t", "min.insync.replicas", "2")
    story.state(3)
    story.state(10, isr=[1, 2])
    story.broker(10, 3, "fenced")
    story.tables["brokers"][-1]["metadata_offset"] = story.tables["partitions"][-1]["metadata_offset"] + 1
    if joins_while_fenced:
        story.state(15, isr=[1, 2, 3])
    story.broker(30, 3, "unfenced")
    if not joins_while_fenced:
        story.state(31, isr=[1, 2, 3])
    return story


def test_a_fenced_follower_that_joins_the_isr_is_seen_where_the_log_may_have_a_gap(tmp_path: Path) -> None:
    joined = follower_unheard(tmp_path, joins_while_fenced=True)
    asked = f'{NO_LOSS}\nholds = ["{TRANSITIONS}"]'
    assert outcome(joined, NO_LOSS)[0] == "as-predicted"
    assert outcome(joined, asked)[0] == "inconclusive"
    whole_log(joined)
    assert outcome(joined, asked)[0] == "contradicted"


def test_a_follower_that_joins_after_it_is_unfenced_is_as_predicted(tmp_path: Path) -> None:
    story = follower_unheard(tmp_path, joins_while_fenced=False)
    whole_log(story)
    assert outcome(story, f'{NO_LOSS}\nholds = ["{TRANSITIONS}"]')[0] == "as-predicted"


# committed against the maximal ISR


@pytest.mark.parametrize(("hw", "sharper"), [(100, "as-predicted"), (150, "contradicted")])
def test_a_hw_that_counts_a_proposed_member_is_seen_without_the_rule_below_min_isr(
    tmp_path: Path, hw: int, sharper: str
) -> None:
    """The ISR is the leader, and its request to grow the ISR is held from 11 s to 20 s."""
    story = Story(tmp_path, kafka="4.3.1", features=ELR_ON, min_isr=1)
    story.state(1)
    story.state(10, isr=[1])
    story.step(11, "hold-request", 1)
    assert story.steps is not None
    story.steps[-1] = msgspec.structs.replace(story.steps[-1], parameters={"api": "AlterPartition"}, healed_ns=ns(20))
    story.tables["sends"].append(SEND | {"acks": 1, "value": 1, "sent_ns": ns(12), "done_ns": ns(12.1)})
    story.hw(12, 1, 0, 100)
    story.hw(19, 1, 0, hw)
    story.state(21, isr=[1, 3])
    asked = 'never = ["hw-advanced-while-alter-partition-held"]'
    assert outcome(story, asked)[0] == sharper
