"""The clause on copiers in a verdict: which runs have it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from copier_scenario import add_copier
from judge_records import Story, by_name, healthy_story

from ebbtide.record.tables import COPIES
from ebbtide.record.verdict import Verdict

CLAUSE = "exactly-once-copies"


def story_of_a_copier(record: Path) -> Story:
    story = healthy_story(record)
    add_copier(record)
    return story


def judge_with_copies(story: Story, *groups: str) -> Verdict:
    row = {"topic": "t", "partition": 0, "copied_to": "u", "producer": 2, "sent_ns": 1}
    rows = [row | {"group": group, "offset": number, "value": number} for number, group in enumerate(groups)]
    (story.record / "copies").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=COPIES), story.record / "copies" / "copies-2.parquet")
    return story.judge()


def test_the_copies_of_a_group_exercise_the_clause(tmp_path: Path) -> None:
    verdict = judge_with_copies(story_of_a_copier(tmp_path), "copiers", "copiers")
    assert (by_name(verdict)[CLAUSE], verdict.coverage["copies-sent"]) == ("holds", 2)


def test_copies_of_a_group_that_was_promised_nothing_exercise_nothing(tmp_path: Path) -> None:
    verdict = judge_with_copies(story_of_a_copier(tmp_path), "others")
    assert (by_name(verdict)[CLAUSE], verdict.coverage["copies-sent"]) == ("not-exercised", 1)


def test_a_run_with_a_copier_has_the_clause_also_where_its_table_is_missing(tmp_path: Path) -> None:
    assert by_name(story_of_a_copier(tmp_path).judge())[CLAUSE] == "not-exercised"


def test_a_run_without_copiers_exercises_no_such_clause(tmp_path: Path) -> None:
    assert by_name(healthy_story(tmp_path).judge())[CLAUSE] == "not-exercised"
