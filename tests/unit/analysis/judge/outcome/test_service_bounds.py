"""Bounds of the time without service: what a record passes without them, and fails with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_records import NO_LOSS, Story, whole_log
from test_unavailable import send

from analysis.judge.outcome.prediction import prediction_sentence
from analysis.judge.outcome.service_bounds import unavailability_phrases
from ebbtide.record.manifest import ProducerSetup
from ebbtide.scenario.model import Prediction, TimeBounds, UnavailabilityExpectation


def _story(record: Path, bounds: str = "", *, served_again_s: float = 12.0) -> Story:
    """No leader from 10 s on; the next leader and the next ack come at `served_again_s`."""
    story = Story(record)
    whole_log(story)
    story.change(producers={"1": ProducerSetup(acks=-1)})
    for broker in (1, 2, 3):
        story.broker(0, broker)
        story.broker(0.5, broker, "unfenced")
    story.config(0.9, "topic:t", "min.insync.replicas", "2")
    story.state(1)
    story.step(2, "wait")
    story.state(7, isr=[1, 2])
    story.state(8, isr=[1])
    story.step(9, "kill", 1)
    story.state(10, leader=-1)
    _with_state(story, 10, "fenced", 1)
    story.broker(11, 1)
    story.state(served_again_s, leader=1)
    _with_state(story, served_again_s, "unfenced", -1)
    story.tables["sends"] = [send(2, 2.01), send(9.5, 10), send(9.9, served_again_s)]
    story.predict(NO_LOSS + (f"\nunavailable_s = {bounds}" if bounds else ""), steps=1)
    return story


def _with_state(story: Story, at_s: float, event: str, place: int) -> None:
    """Add an event of broker 1 to the record batch of the newest partition state, before or behind it."""
    story.broker(at_s, 1, event)
    story.tables["brokers"][-1]["metadata_offset"] = story.tables["partitions"][-1]["metadata_offset"] + place


@pytest.mark.parametrize("service", ["no_leader", "no_ack"])
def test_a_planted_outage_passes_without_the_bound_and_contradicts_with_it(tmp_path: Path, service: str) -> None:
    bounds = f"{{ {service} = {{ max = 5 }} }}"
    assert _story(tmp_path).judge().outcome == "as-predicted"
    assert _story(tmp_path, bounds).judge().outcome == "as-predicted"
    assert _story(tmp_path, served_again_s=40).judge().outcome == "as-predicted"
    verdict = _story(tmp_path, bounds, served_again_s=40).judge()
    assert verdict.outcome == "contradicted"
    assert "for more than 5 s, seen 30.0 s (t-0)" in verdict.why[0]


@pytest.mark.parametrize("service", ["no_leader", "no_ack"])
def test_an_outage_that_must_come_and_does_not_is_inconclusive(tmp_path: Path, service: str) -> None:
    bounds = f"{{ {service} = {{ min = 5 }} }}"
    verdict = _story(tmp_path, bounds).judge()
    assert verdict.outcome == "inconclusive"
    assert "for at least 5 s, seen 2.0 s at most: the run did not show it" in verdict.why[0]
    assert _story(tmp_path, bounds, served_again_s=15).judge().outcome == "as-predicted"


def test_an_outage_without_an_end_in_the_record_does_not_pass_a_bound(tmp_path: Path) -> None:
    story = _story(tmp_path, "{ no_ack = { max = 5 } }")
    story.tables["sends"].append(send(13, 16, "failed"))
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert "the record does not show when t-0 was served again" in verdict.why[0]


@pytest.mark.parametrize(("bound", "table"), [("no_leader", "partitions"), ("no_ack", "sends")])
@pytest.mark.parametrize("limit", ["min = 1", "max = 50"])
def test_a_time_that_is_not_known_meets_no_bound(tmp_path: Path, bound: str, table: str, limit: str) -> None:
    verdict = _story(tmp_path, f"{{ {bound} = {{ {limit} }} }}").judge(missing=(table,))
    assert verdict.outcome == "inconclusive"
    assert any(f"without a{'n ack' if bound == 'no_ack' else ' leader'}" in one for one in verdict.why)


def test_a_bound_where_nobody_waited_is_not_met(tmp_path: Path) -> None:
    story = _story(tmp_path, "{ no_ack = { max = 50 } }")
    story.tables["sends"] = [send(2, 2.01, acks=1)]
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert "nobody waited for one" in verdict.why[0]


def test_an_outage_beside_a_fault_without_proof_is_not_held_against_kafka(tmp_path: Path) -> None:
    story = _story(tmp_path, "{ no_leader = { max = 5 } }", served_again_s=40)
    story.step(11, "heal", 2, proven=False)
    assert story.judge().outcome == "inconclusive"


def test_the_prediction_says_its_bounds(tmp_path: Path) -> None:
    bounds = UnavailabilityExpectation(no_leader=TimeBounds(max=5), no_ack=TimeBounds(min=2.5, max=30))
    prediction = Prediction(kafka=">=3.3", clause="a clause", unavailable_s=bounds)
    assert list(unavailability_phrases(prediction)) == [
        "no partition without a leader for more than 5 s",
        "a partition without an ack of acks=all for at least 2.5 s",
        "no partition without an ack of acks=all for more than 30 s",
    ]
    assert "for more than 30 s (a clause)" in prediction_sentence(prediction)
