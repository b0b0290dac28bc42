"""A run that ended early, or was disturbed from outside, proves nothing that its prediction needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_records import NO_LOSS, by_name, healthy_story

from ebbtide.errors import UsageError
from ebbtide.record.manifest import failure_keys
from ebbtide.record.verdict import AnomalyCount, Verdict


def reasons(verdict: Verdict) -> str:
    return "\n".join(verdict.why)


def test_a_run_that_ended_early_cannot_say_that_the_hw_never_went_back(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, NO_LOSS + '\nhw_regression = "some"')
    story.hw(2, 1, 0, 1000)
    assert "the HW never went back" in reasons(story.judge())
    story.change(status="interrupted")
    assert "never went back" not in reasons(story.judge())
    assert "did not: the run" not in reasons(story.judge())
    assert by_name(story.judge())["no-hw-regression-unless-allowed"] == "unknown"
    story.regress(1000, 0, epochs=(0, 2), at_s=(9, 22))
    assert "a HW below an earlier one was served" in reasons(story.judge())


@pytest.mark.parametrize("status", ["interrupted", "failed"])
def test_a_run_that_did_not_complete_is_inconclusive(tmp_path: Path, status: str) -> None:
    story = healthy_story(tmp_path)
    story.change(status=status, failure="the disk was full")
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert verdict.why[0] == "the run did not complete: the disk was full"


def test_the_error_that_ended_a_run_is_one_clause_of_the_reason(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    error = UsageError("no such setting", where="topics.t.config", allowed="others", next="correct it")
    story.change(status="failed", **failure_keys(error))
    assert story.judge().why[0] == "the run did not complete: no such setting (topics.t.config)"


def test_a_record_with_only_the_message_of_its_error_gives_it_in_one_line_without_advice(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.change(status="failed", failure=UsageError("no such setting", where="a.b", next="correct it").render())
    assert story.judge().why[0] == "the run did not complete: no such setting where: a.b"


def test_a_run_that_something_outside_of_it_disturbed_cannot_break_its_prediction(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, 'anomalies = "none"')
    story.anomalies.append(AnomalyCount(kind="duplicate", topic="t", partition=0, count=3))
    story.change(status="failed", failure="something outside of the run stopped broker-2")
    assert story.judge().outcome == "contradicted"
    story.change(disturbed=True)
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert "predicted no anomaly, seen 3 duplicate; but something outside of the run interfered" in verdict.why


def test_a_violation_of_the_protocol_contradicts_a_disturbed_run_too(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.step(5, "kill", 2)
    story.state(6, isr=[2, 3])
    story.change(status="failed", failure="something outside of the run stopped broker-2", disturbed=True)
    verdict = story.judge()
    assert verdict.outcome == "contradicted"
    assert "leader-in-isr" in verdict.why[0]


def test_a_journal_that_was_torn_leaves_a_complete_run_inconclusive(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.change(torn_journal_bytes=17)
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert verdict.why[0].startswith("17 bytes at the ends of the clients' journals")
