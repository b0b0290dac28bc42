"""The example of each rule breaks the rule, and the rule finds in it what the example says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from worked_examples import example_of, record_of, shows

from analysis.items import reconcile_all
from analysis.judge.rules.clause import check_all
from analysis.judge.rules.registry import ANOMALIES, CLAUSES
from analysis.judging.one_record import judged_record

pytestmark = pytest.mark.spark


def test_each_rule_finds_what_its_example_says(spark: SparkSession, tmp_path: Path) -> None:
    rules = [*ANOMALIES, *CLAUSES]
    examples = {one.name: example_of(one) for one in rules}
    records = [record_of(example, tmp_path / name) for name, example in examples.items()]
    found = dict(
        zip((one.name for one in rules), zip(records, reconcile_all(spark, records), strict=True), strict=True)
    )
    wrong: dict[str, object] = {}
    for kind in ANOMALIES:
        _, of_example = found[kind.name]
        items = [item for one in of_example.anomalies if one.kind == kind.name for item in one.examples]
        if not items or not shows(items[0], examples[kind.name].gives):
            wrong[kind.name] = items or of_example.unknown.get(kind.name)
    for clause in CLAUSES:
        (checked,) = check_all(judged_record(*found[clause.name]), [clause])
        evidence, example = checked.found.evidence, examples[clause.name]
        if checked.found.status != example.status or not shows(evidence[0], example.gives):
            wrong[clause.name] = msgspec.to_builtins(checked.found)
    assert wrong == {}
