"""The page of a run says what the run exercised, and what each clause says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from judge_records import last_replica_standing
from records import as_record

from analysis.report.html import render
from analysis.report.model import build
from ebbtide.record.verdict import PropertyResult, Verdict
from ebbtide.rules.table import CLAUSES


def test_the_page_says_what_each_fact_that_came_about_counts(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    verdict = story.judge()
    report = build(as_record(story.record, story.manifest), verdict)
    elections = next(one for one in report.coverage if one.fact == "elections")
    assert elections.meaning in render(report)
    assert "elections-from-elr" in report.not_covered
    known = {one.fact for one in report.coverage} | {*report.not_covered}
    assert known == verdict.coverage.keys()
    other = msgspec.structs.replace(verdict, coverage={"of-another-version": 3})
    assert [
        (one.fact, one.count, one.meaning) for one in build(as_record(story.record, story.manifest), other).coverage
    ] == [("of-another-version", "3", "")]


@pytest.mark.parametrize("name", CLAUSES)
def test_the_page_says_what_every_clause_says(tmp_path: Path, name: str) -> None:
    story = last_replica_standing(tmp_path)
    judged = Verdict(
        run_id="run-1", outcome="inconclusive", properties=[PropertyResult(name=name, kip="KIP", status="holds")]
    )
    (clause,) = build(as_record(story.record, story.manifest), judged).properties
    assert clause.text
    assert "`" not in clause.text


def test_the_figures_say_whose_reads_and_which_outcomes_they_count(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    names = [name for name, _ in build(as_record(story.record, story.manifest), story.judge()).figures]
    assert names[:5] == ["sent", "acked", "failed", "outcome unknown", "read, by all consumers"]
