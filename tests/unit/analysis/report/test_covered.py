"""The page of a run says what the run exercised."""

from __future__ import annotations

from pathlib import Path

import msgspec
from judge_records import last_replica_standing

from analysis.report.html import render
from analysis.report.model import build


def test_the_page_says_what_each_fact_that_came_about_counts(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    verdict = story.judge()
    report = build(story.record, story.manifest, verdict, story.steps or [])
    elections = next(one for one in report.coverage if one.fact == "elections")
    assert elections.meaning in render(report)
    assert "elections-from-elr" in report.not_covered
    known = {one.fact for one in report.coverage} | {*report.not_covered}
    assert known == verdict.coverage.keys()
    other = msgspec.structs.replace(verdict, coverage={"of-another-version": 3})
    assert [(one.fact, one.count, one.meaning) for one in build(story.record, story.manifest, other, []).coverage] == [
        ("of-another-version", "3", "")
    ]
