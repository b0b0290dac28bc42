"""What is planted in known numbers is found in those numbers, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from reconcile_planted import NOT_SETTLED, by_topic, planted_run, run_with_commits_of_what_nobody_read
from records import as_record

from analysis.items import reconcile_all
from analysis.judge.rules.registry import ANOMALIES
from analysis.rows import summing

pytestmark = pytest.mark.spark

RUNS = 2


@pytest.mark.parametrize("narrows", [False, True], ids=["all rows at once", "only what differs"])
def test_planted_anomalies_are_found_in_their_numbers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrows: bool
) -> None:
    if not narrows:
        monkeypatch.setattr(summing, "BLOCKS_MAX", -1)
    runs = [planted_run(random.Random(966 + number)) for number in range(RUNS)]
    records = [
        as_record(builder.write(tmp_path / str(number)), builder.manifest()) for number, (builder, _) in enumerate(runs)
    ]
    found = reconcile_all(spark, records)
    assert [by_topic(one) for one in found] == [
        {topic: kinds for topic, kinds in expected.items() if kinds} for _, expected in runs
    ]
    assert {kind for _, expected in runs for kinds in expected.values() for kind in kinds} == {
        NOT_SETTLED,
        *(kind.name for kind in ANOMALIES),
    }
    assert not any(one.unknown for one in found)


def test_a_lost_commit_of_a_partition_that_nobody_read_is_no_item(spark: SparkSession, tmp_path: Path) -> None:
    builder, expected = run_with_commits_of_what_nobody_read()
    (found,) = reconcile_all(spark, [as_record(builder.write(tmp_path / "run"), builder.manifest())])
    assert by_topic(found) == expected
    assert found.unknown["commit-lost"] == "the final read does not cover unread-9, so its topic may have been deleted"
