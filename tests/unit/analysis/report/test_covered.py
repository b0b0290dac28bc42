"""The page of a run says what the run exercised, and what each clause says."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from judge_records import last_replica_standing
from markupsafe import escape
from records import as_record

from analysis.report.html import render
from analysis.report.model import build
from analysis.sentences.words import clause_text
from ebbtide.record.verdict import PropertyResult, Verdict
from ebbtide.rules.table import CLAUSES
from ebbtide.scenario.facts import FACTS


def test_the_page_says_what_each_fact_that_came_about_counts(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    verdict = story.judge()
    other = {"of-another-version": 3, "other-absent": 0}
    verdict = msgspec.structs.replace(verdict, coverage=verdict.coverage | other)
    page = render(build(as_record(story.record, story.manifest), verdict))
    counted = {name for name, count in verdict.coverage.items() if count}
    assert "elections" in counted
    assert set(re.findall(r'<tr><td>([^<]+)</td><td class="n">[\d,]+</td><td class="wide">', page)) == counted
    assert all(FACTS[name].counts in page for name in counted if name in FACTS)
    assert '<tr><td>of-another-version</td><td class="n">3</td><td class="wide"></td></tr>' in page
    absent = [name for name, count in verdict.coverage.items() if not count]
    assert f">{', '.join(absent)}</p>" in page


@pytest.mark.parametrize("name", CLAUSES)
def test_the_page_says_what_every_clause_says(tmp_path: Path, name: str) -> None:
    story = last_replica_standing(tmp_path)
    judged = Verdict(
        run_id="run-1", outcome="inconclusive", properties=[PropertyResult(name=name, kip="KIP", status="holds")]
    )
    text = clause_text(judged.properties[0])
    assert text
    assert "`" not in text
    assert escape(text) in render(build(as_record(story.record, story.manifest), judged))


def test_the_figures_say_whose_reads_and_which_outcomes_they_count(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    names = [name for name, _ in build(as_record(story.record, story.manifest), story.judge()).figures]
    assert names[:5] == ["sent", "acked", "failed", "outcome unknown", "read, by all consumers"]
