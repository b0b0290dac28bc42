"""The table of judged runs and the headline: counts of sends, and nothing that looks better than it is."""

from __future__ import annotations

from pathlib import Path

import msgspec
from judge_records import Story, last_replica_standing
from records import as_record

from analysis.report.summary import judged_run, summary_lines, summary_text
from analysis.sentences.protocol import outcome_basis
from analysis.sentences.words import headline
from ebbtide.record.verdict import Counts, RuleFile, Verdict
from ebbtide.scenario.model import PROTOCOL_ALONE, Prediction


def test_the_table_has_what_was_sent_acked_failed_and_unknown(tmp_path: Path) -> None:
    verdict = last_replica_standing(tmp_path).judge()
    counts = Counts(sends=1_010, acked=1_000, failed=7, unknown=3)
    run = judged_run(as_record(tmp_path), msgspec.structs.replace(verdict, counts=counts, coverage={}))
    assert run.sends == (("sent", "1,010"), ("acked", "1,000"), ("failed", "7"), ("unknown", "3"))


def test_without_sends_their_counts_are_unknown(tmp_path: Path) -> None:
    verdict = last_replica_standing(tmp_path).judge()
    run = judged_run(as_record(tmp_path), msgspec.structs.replace(verdict, counts=Counts(), properties=[]))
    assert {shown for _, shown in run.sends} == {"?"}


def test_an_inconclusive_run_without_a_loss_does_not_read_as_a_pass() -> None:
    verdict = Verdict(run_id="r", outcome="inconclusive", why=["why"], counts=Counts(sends=30, acked=30))
    said = headline(verdict, "4.3.1", sends=True)
    assert said == "Inconclusive: no loss was seen among 30 acked records."


def test_a_row_has_what_each_rule_of_the_user_found_where_there_is_one(tmp_path: Path) -> None:
    verdict = last_replica_standing(tmp_path).judge()
    own = [RuleFile(name=one.name, file="ours.py", sha256="0") for one in verdict.properties[:2]]
    judged = judged_run(as_record(tmp_path), msgspec.structs.replace(verdict, rule_files=own))
    found = [f"{one.name}: {one.status}" for one in verdict.properties[:2]]
    assert dict(summary_lines(judged))["your rules"].split("\n") == found
    assert "your rules" in summary_text([judged], 200)
    assert "your rules" not in summary_text([judged_run(as_record(tmp_path), verdict)], 200)


def test_a_run_without_timings_shows_none(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    verdict = story.judge()
    assert dict(summary_lines(judged_run(as_record(tmp_path), verdict)))["longest phases"] == "-"


def test_a_scenario_without_a_prediction_is_not_said_to_predict() -> None:
    verdict = Verdict(run_id="r", outcome="as-predicted")
    assert outcome_basis(verdict, PROTOCOL_ALONE).startswith("The scenario has no prediction. ")
    predicts = Prediction(kafka=">=3.3", clause="KIP-966: c", anomalies="none")
    assert outcome_basis(verdict, predicts) == "The scenario predicts this for the release: KIP-966: c."
