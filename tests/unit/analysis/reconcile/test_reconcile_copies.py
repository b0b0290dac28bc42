"""What the judge gets of wrong copies."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from anomaly_kinds import copied_twice, input_skipped
from reconcile_cases import build_cases
from reconcile_oracle_copies import copying
from reconcile_together import record_of
from records import RecordBuilder

from analysis.reconcile.model import Reconciliation, WrongCopies

pytestmark = pytest.mark.spark

TWICE, SKIPPED = "copied-twice", "input-skipped"
CASES = {**copied_twice.CASES[copying], **input_skipped.CASES[copying]}
RECORDS = {
    "cases": record_of(lambda: build_cases(copying, [build for build, _ in CASES.values()])),
    "read to the end": record_of(input_skipped.answered),
    "without copies": record_of(lambda: RecordBuilder().acked(1, at=0).final(1, at=0)),
}


def test_the_judge_gets_the_input_and_its_copies(found: Mapping[str, Reconciliation]) -> None:
    groups = found["cases"].groups_of(WrongCopies)
    one = next(one for one in groups if one.kind == TWICE)
    assert (one.group, one.partition, one.count) == ("copiers", 0, 1)
    assert (one.first["offset"], one.first["copies"], one.first["copied_to"]) == (0, 2, one.topic)
    assert len(one.first["values"]) == 2
    skipped = next(one for one in groups if one.kind == SKIPPED)
    assert (skipped.first["group"], skipped.first["committed"]) == ("copiers", 2)


def test_a_run_whose_copies_were_read_to_the_end_is_judged_and_one_without_copies(
    found: Mapping[str, Reconciliation],
) -> None:
    whole, without = found["read to the end"], found["without copies"]
    assert {TWICE, SKIPPED}.isdisjoint(whole.unknown.keys() | without.unknown.keys())
    assert [(one.kind, one.count) for one in whole.groups_of(WrongCopies)] == [(SKIPPED, 1)]
