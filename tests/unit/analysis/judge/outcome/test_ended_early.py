"""A run that ended early, or was disturbed from outside, proves nothing that its prediction needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_records import NO_LOSS, Story, by_name, healthy_story
from records import as_record

from analysis.judge.outcome.reasons import unproven_reasons
from analysis.report.model import build
from ebbtide.errors import UsageError
from ebbtide.record.manifest import failure_keys
from ebbtide.record.steps import StepEntry
from ebbtide.record.verdict import AnomalyCount, Counts, Verdict


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
    assert "had a lower HW than an earlier one" in reasons(story.judge())


@pytest.mark.parametrize("status", ["interrupted", "failed"])
def test_a_run_that_did_not_complete_is_inconclusive(tmp_path: Path, status: str) -> None:
    story = healthy_story(tmp_path)
    story.change(status=status, failure="the disk was full")
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert verdict.why[0] == "the run did not complete: the disk was full"


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
    assert "predicted no anomaly, seen 3 duplicated records; but something outside of the run interfered" in verdict.why


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


@pytest.fixture
def refused(tmp_path: Path) -> Story:
    """A run whose topic Kafka refused: nothing was sent, and so nothing is known."""
    story = Story(tmp_path)
    story.predict(NO_LOSS + '\nanomalies = "none"', steps=2)
    story.counts = Counts()
    story.unknown = dict.fromkeys(("lost", "duplicate", "unseen"), "sends is missing")
    error = UsageError("Kafka does not know flush.message", where="topics.t.config", next="correct the topic")
    story.change(status="failed", final_consumer=None, **failure_keys(error))
    return story


def test_a_run_that_sent_nothing_names_its_failure_and_sums_up_what_follows_from_it(refused: Story) -> None:
    verdict = refused.judge()
    assert verdict.outcome == "inconclusive"
    assert verdict.why[0] == "the run did not complete: Kafka does not know flush.message (topics.t.config)"
    unknown = [name for name, status in by_name(verdict).items() if status == "unknown"]
    assert verdict.why[1].startswith("no record was sent before that, so there is nothing to judge: ")
    assert f"{len(unknown)} clauses of the protocol cannot be checked" in verdict.why[1]
    assert "steps" not in reasons(verdict)
    assert "could not be decided" not in reasons(verdict)
    assert "it is not known" not in reasons(verdict)


def test_a_failed_run_that_may_have_lost_its_sends_does_not_say_that_it_sent_nothing(refused: Story) -> None:
    (refused.record / "journal").mkdir()
    (refused.record / "journal" / "producer-1.journal").write_bytes(b"")
    verdict = refused.judge()
    assert not verdict.sent_nothing
    report = build(as_record(refused.record, refused.manifest), verdict)
    assert report.headline == "Inconclusive: it is not known how many records were acked or lost."
    assert dict(report.figures)["lost, committed"] == "?"


def test_the_failure_of_a_run_comes_before_what_its_record_lacks(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.change(status="failed", failure="the disk was full")
    gaps = ["sends is damaged", "polls is missing"]
    found = unproven_reasons(story.manifest, None, story.steps, gaps)
    assert found[:3] == ["the run did not complete: the disk was full", *gaps]


def test_the_failure_that_ended_a_step_is_said_once_and_another_one_in_one_line(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    failure = UsageError("broker-1 died by itself", where="logs", got="its last words", next="look there").render()
    story.change(status="failed", failure=failure)
    assert story.steps is not None
    story.steps += [
        StepEntry(index=0, step="heal", why=failure),
        StepEntry(index=1, step="start", why=UsageError("too late", where="broker-1", next="try again").render()),
    ]
    assert story.judge().why[:3] == [
        "the run did not complete: broker-1 died by itself where: logs got: its last words",
        "step 0 (heal) never fired",
        "step 1 (start) never fired: too late where: broker-1",
    ]
