"""Kinds that no comparison makes possible are not planned, whether Spark or NumPy read the rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from reconcile_dice import Dice, run
from records import RecordBuilder, as_record

from analysis.items import reconcile, reconciling
from analysis.reconcile import blocks, inversions, row_sums, ruling_out, work
from analysis.reconcile.collecting import collect_facts
from analysis.reconcile.facts import partition_facts
from analysis.reconcile.row_pass import summed_rows
from analysis.reconcile.session import plans_for
from analysis.reconcile.tables import load, run_files
from ebbtide.record.tables import TABLES

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def few_parts(spark: SparkSession) -> Iterator[None]:
    with plans_for(spark, 0, one_part=True):
        yield


@pytest.mark.parametrize("seed", range(4))
def test_the_answers_from_sums_by_numpy_are_those_from_all_rows(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    builder = run(Dice(seed))
    runs = [run_files(as_record(builder.write(tmp_path / "run"), builder.manifest()))]
    tables = load(spark, runs)
    sends, polls = blocks.send_blocks(tables, {}), blocks.poll_blocks(tables)
    facts = collect_facts(tables, sends, polls, runs)
    compared = blocks.compare_blocks(sends, polls, partition_facts(spark, facts), facts)
    assert compared is not None
    of_rows = reconciling._comparisons(spark, tables, compared, inversions.inversions(tables), facts, None)
    row_pass = summed_rows(spark, runs, tmp_path)
    assert row_pass is not None
    of_sums = reconciling._comparisons(spark, tables, compared, of_rows.inverted, facts, row_pass)
    answers = ruling_out.answers(of_sums)
    assert answers is not None
    assert answers.possible == ruling_out.possible_kinds(of_rows)
    assert of_rows.suspects is not None
    assert answers.values == {(row.run, row["values"]) for row in of_rows.suspects.collect()}
    differ = [compared.where("NOT agree").select(*blocks.BLOCK), of_rows.replicas]
    differ.append(None if of_rows.inverted is None else inversions.blocks_before(of_rows.inverted))
    assert answers.offsets == {tuple(row) for some in differ if some is not None for row in some.collect()}


def test_too_many_blocks_are_not_told_apart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ruling_out, "BLOCKS_MAX", 1)
    rows = spark.createDataFrame(
        [(0, "t", 0, block, False, False) for block in range(2)],
        "run int, topic string, partition int, block bigint, agree boolean, passed_over boolean",
    )
    found = ruling_out.Comparisons(blocks=rows, suspects=None, inverted=None, replicas=None, high_watermarks=None)
    assert ruling_out.answers(found) is None
    assert ruling_out.possible_kinds(found) == {ruling_out.VALUES}


@pytest.mark.parametrize("is_small", [False, True], ids=["sums by NumPy", "all rows by Spark"])
def test_no_kind_that_compares_values_is_planned_for_a_record_without_anomalies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    planned: list[str] = []
    plan = work.leader_logs
    monkeypatch.setattr(reconciling, "is_small", lambda _: is_small)
    monkeypatch.setattr(work, "leader_logs", lambda *given: planned.append("leaders") or plan(*given))
    whole = RecordBuilder().acked(1, 2, at=0).read(1, 2, at=0).final(1, 2)
    assert reconcile(spark, as_record(whole.write(tmp_path / "whole"), whole.manifest())).anomalies == []
    assert planned == []
    lacking = RecordBuilder().acked(1, 2, at=0).final(1)
    found = reconcile(spark, as_record(lacking.write(tmp_path / "lacking"), lacking.manifest())).anomalies
    assert [one.kind for one in found] == ["lost"]
    assert planned == ["leaders"]


def test_sums_of_one_block_of_values_are_added_up_by_kind_and_run() -> None:
    sums = [(0, 5, row_sums.ACKED, 2, 0b11), (0, 5, row_sums.FINAL, 1, 0b1), (1, 5, row_sums.ACKED, 1, 0b1)]
    sums += [(0, 5, row_sums.ACKED, 2, 0b110), (0, 4, row_sums.ACKED, 1, 0b1)]
    table = pa.Table.from_pylist([dict(zip(row_sums.VALUE_SUMS.names, one, strict=True)) for one in sums])
    added = row_sums.added_values(table.cast(row_sums.VALUE_SUMS))
    assert {tuple(row.values()) for row in added.to_pylist()} == {
        (0, 5, row_sums.ACKED, 4, 0b111),
        (0, 5, row_sums.FINAL, 1, 0b1),
        (1, 5, row_sums.ACKED, 1, 0b1),
        (0, 4, row_sums.ACKED, 1, 0b1),
    }
    assert row_sums.added_values(row_sums.VALUE_SUMS.empty_table()).num_rows == 0


@pytest.mark.parametrize("by_spark", [False, True], ids=["NumPy narrows", "Spark narrows"])
def test_replicas_are_compared_where_nothing_was_sent_or_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_spark: bool
) -> None:
    monkeypatch.setattr(reconciling, "is_small", lambda _: False)
    if by_spark:
        monkeypatch.setattr(reconciling, "summed_rows", lambda *_: None)
    builder = RecordBuilder().empty(*TABLES).checkpoint(1, 1).checkpoint(2, 1).replica(1, 5).replica(2, 6)
    found = reconcile(spark, as_record(builder.write(tmp_path / "run"), builder.manifest())).anomalies
    assert [one.kind for one in found] == ["replica-divergence"]
