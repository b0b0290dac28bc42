"""A coordinator serves at the end what copiers committed in their transactions."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import checked, judged
from worked_examples import example_of, record_of

from analysis.judge.rules.groups import copied_offsets_are_served as rule


def status(folder: Path, **instead: str) -> str:
    """What the clause finds in its example with other rows in some tables."""
    example = example_of(rule.RULE)
    rows = {**example.rows, **{table: text.split(";") for table, text in instead.items()}}
    record_of(example._replace(rows=rows), folder / "record")
    return checked(rule, judged(folder / "record")).found.status


def answer(offset: str, at: int = 40, broker: int = 1) -> str:
    return f"topic=t status=served broker={broker} at={at} {offset}"


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        (answer(""), "violated"),
        (answer("offset=0 commit=1"), "violated"),
        (answer("offset=1 commit=1"), "holds"),
        (answer("offset=2 commit=1"), "holds"),
        (f"{answer('')};{answer('offset=1 commit=1', at=41)}", "holds"),  # the last one counts
        (f"{answer('offset=1 commit=1')};{answer('', at=41)}", "violated"),
        (answer("", at=21), "not-exercised"),  # asked before the next transaction went on
        (answer("", broker=2), "not-exercised"),
    ],
)
def test_the_last_answer_has_what_was_committed(tmp_path: Path, answers: str, found: str) -> None:
    assert status(tmp_path, commits=answers) == found


def test_a_coordinator_that_leads_for_a_short_time_says_nothing(tmp_path: Path) -> None:
    states = "topic=__consumer_offsets leader=2;topic=__consumer_offsets leader=1 at={}"
    assert status(tmp_path, partitions=states.format(29)) == "violated"
    assert status(tmp_path / "later", partitions=states.format(35)) == "not-exercised"


@pytest.mark.parametrize("outcome", ["aborted", "unknown"])
def test_what_was_not_committed_need_not_be_served(tmp_path: Path, outcome: str) -> None:
    sends = f"topic=copies value=1 offset=0 txn=1 txn_outcome={outcome} at=21"
    later = "topic=copies value=2 offset=2 txn=2 txn_outcome=committed at=22"
    assert status(tmp_path, sends=f"{sends};{later}") == "not-exercised"


def test_what_lost_records_may_have_lost_the_offset(tmp_path: Path) -> None:
    assert status(tmp_path, steps="step=wipe-disk nodes=2 at=5") == "unknown"
