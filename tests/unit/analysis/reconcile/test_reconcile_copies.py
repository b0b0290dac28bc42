"""What the judge gets of wrong copies."""

from __future__ import annotations

from pathlib import Path

import pytest
from anomaly_kinds import copied_twice, input_skipped
from pyspark.sql import SparkSession
from reconcile_cases import build_cases
from reconcile_oracle_copies import copying
from records import RecordBuilder, as_record

from analysis.items import reconcile, reconcile_all
from analysis.reconcile.model import Reconciliation, WrongCopies

pytestmark = pytest.mark.spark

TWICE, SKIPPED = "copied-twice", "input-skipped"
CASES = {**copied_twice.CASES[copying], **input_skipped.CASES[copying]}


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Reconciliation:
    builder = build_cases(copying, [build for build, _ in CASES.values()])
    return reconcile(spark, as_record(builder.write(tmp_path_factory.mktemp("copies") / "run"), builder.manifest()))


def test_the_judge_gets_the_input_and_its_copies(found: Reconciliation) -> None:
    one = next(one for one in found.groups_of(WrongCopies) if one.kind == TWICE)
    assert (one.group, one.partition, one.count) == ("copiers", 0, 1)
    assert (one.first["offset"], one.first["copies"], one.first["copied_to"]) == (0, 2, one.topic)
    assert len(one.first["values"]) == 2
    skipped = next(one for one in found.groups_of(WrongCopies) if one.kind == SKIPPED)
    assert (skipped.first["group"], skipped.first["committed"]) == ("copiers", 2)


def test_a_run_whose_copies_were_read_to_the_end_is_judged_and_one_without_copies(
    spark: SparkSession, tmp_path: Path
) -> None:
    builders = [input_skipped.answered(), RecordBuilder().acked(1, at=0).final(1, at=0)]
    records = [as_record(one.write(tmp_path / str(number)), one.manifest()) for number, one in enumerate(builders)]
    whole, without = reconcile_all(spark, records)
    assert {TWICE, SKIPPED}.isdisjoint(whole.unknown.keys() | without.unknown.keys())
    assert [(one.kind, one.count) for one in whole.groups_of(WrongCopies)] == [(SKIPPED, 1)]
