"""Rows that NumPy sums up and chooses: the sums are Spark's, and nothing that matters is left out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from reconcile_dice import Dice, run
from reconcile_rows import BATCHES_IN_ORDER, RANGES_APART, are_apart, chosen_polls, lost_decreases, order_of, rows_of
from records import RecordBuilder, as_record

from analysis.items import reconcile, reconciling
from analysis.reconcile import blocks, narrowing, replica_blocks, row_batches, row_pass
from analysis.reconcile.collecting import collect_facts
from analysis.reconcile.deletions import Deletion
from analysis.reconcile.row_batches import Ints, row_groups
from analysis.reconcile.row_choice import OffsetBlocks, ValueBlocks
from analysis.reconcile.row_pass import RowPass, summed_rows
from analysis.reconcile.row_sums import Groups, hashed, sum_replicas
from analysis.reconcile.session import plans_for
from analysis.reconcile.tables import RunFiles, load, run_files
from ebbtide.errors import UsageError
from ebbtide.record.tables import TABLES


@pytest.mark.parametrize("counts", [(0,), (3, 4), (1 << 16,), (1, 1 << 16), (1 << 16, 1)])
def test_a_scratch_table_has_all_rows_wherever_they_fill_a_row_group(tmp_path: Path, counts: tuple[int, ...]) -> None:
    scratch = row_pass.ScratchTables(tmp_path)
    for count in counts:
        scratch.add("numbers", pa.table({"number": np.arange(count)}))
    path = scratch.finish("numbers")
    assert path is not None
    assert pq.read_table(path).num_rows == scratch.rows == sum(counts)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunFiles]:
    dice = Dice(64)
    builders = [run(dice) for _ in range(6)]
    folder = tmp_path_factory.mktemp("runs")
    return [
        run_files(as_record(one.write(folder / str(number)), one.manifest())) for number, one in enumerate(builders)
    ]


@pytest.fixture
def compiled_plans(spark: SparkSession) -> Iterator[None]:
    """Spark compiles its plans, as it does for a large record."""
    with plans_for(spark, 1_000_000):
        yield


def summed(spark: SparkSession, runs: list[RunFiles], folder: Path) -> RowPass:
    found = summed_rows(spark, runs, folder)
    assert found is not None
    return found


def without_hashes(rows: DataFrame | None) -> list[str]:
    assert rows is not None
    found = []
    for row in rows.toLocalIterator():
        columns = row.asDict(recursive=True)
        for summary in ("all", "shown"):
            if summary in columns:
                columns[summary] = {name: columns[summary][name] for name in ("rows", "mask")}
        found.append(str(sorted(columns.items())))
    return sorted(found)


@pytest.mark.spark
@pytest.mark.parametrize("batch_rows", [pytest.param(3, marks=pytest.mark.slow), 1 << 18])
@pytest.mark.usefixtures("compiled_plans")
def test_the_sums_are_those_of_spark(
    spark: SparkSession, runs: list[RunFiles], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_rows: int
) -> None:
    monkeypatch.setattr(row_batches, "BATCH_ROWS", batch_rows)
    tables, found = load(spark, runs), summed(spark, runs, tmp_path)
    sends, polls = blocks.send_blocks(tables, {}), blocks.poll_blocks(tables)
    assert without_hashes(found.send_blocks()) == without_hashes(sends)
    assert without_hashes(found.poll_blocks()) == without_hashes(polls)
    sums = found.value_sums()
    assert sums is not None
    suspects, expected_values = narrowing.suspicious(sums).collect(), narrowing.suspect_values(tables, None)
    assert expected_values is not None
    assert sorted(suspects) == sorted(expected_values.collect())
    assert suspects
    facts = collect_facts(tables, sends, polls, runs)
    replicas = found.replica_sums(replica_blocks.checkpoints_of(facts))
    expected = replica_blocks.differing_blocks(spark, tables, facts)
    assert replicas is not None
    assert expected is not None
    assert sorted(replica_blocks.differing(replicas).collect()) == sorted(expected.collect())


def test_no_decrease_is_lost_with_the_rows_that_are_left_out() -> None:
    lost, left_out, found = lost_decreases()
    assert lost == 0
    assert left_out > 100
    assert found > 100


@pytest.mark.parametrize(("ranges", "apart"), RANGES_APART)
def test_batches_whose_sequences_overlap_are_not_apart(ranges: tuple[tuple[int, int], ...], apart: bool) -> None:
    assert are_apart(ranges) == apart


@pytest.mark.parametrize(("batches", "apart", "decreases"), BATCHES_IN_ORDER)
def test_batches_with_sequences_in_any_order_show_their_decreases_and_their_overlap(
    batches: tuple[tuple[tuple[int, int], ...], ...], apart: bool, decreases: int
) -> None:
    assert order_of(batches) == (apart, decreases)


def test_rows_in_any_order_have_the_same_groups() -> None:
    dice = np.random.default_rng(64)
    keys = [dice.integers(0, 3, 1000), dice.integers(0, 4, 1000)]
    numbers = dice.integers(-(2**62), 2**62, 1000)
    in_order = np.lexsort(keys[::-1])

    def sums(keys: list[Ints], numbers: Ints) -> list[tuple[int, ...]]:
        groups = Groups(keys)
        columns = (*(groups.first(key) for key in keys), groups.rows, groups.over(np.bitwise_xor, numbers))
        return [tuple(map(int, row)) for row in zip(*columns, strict=True)]

    assert len(sums(keys, numbers)) == 12
    assert sums(keys, numbers) == sums([key[in_order] for key in keys], numbers[in_order])


def test_a_hash_distinguishes_places_values_and_nulls() -> None:
    offsets, values = np.array([0, 0, 1, 1, 2, 2]), np.array([1, 2, 1, 2, 0, 0])
    unknown = np.array([False, False, False, False, False, True])
    hashes = hashed(7, offsets, values, unknown=unknown)
    assert len(set(hashes.tolist())) == 6
    # What changed places: the same values at the same offsets.
    assert hashes[0] ^ hashes[3] != hashes[1] ^ hashes[2]
    assert (hashes[0] >> 24) + (hashes[3] >> 24) != (hashes[1] >> 24) + (hashes[2] >> 24)
    assert hashes.tolist() != hashed(8, offsets, values, unknown=unknown).tolist()


def test_values_are_chosen_by_their_block_and_never_by_their_bucket() -> None:
    dice = random.Random(966)
    chosen = {dice.randrange(-(2**57), 2**57) for _ in range(5_000)} | {0, -1}
    values = [block * 64 + dice.randrange(64) for block in chosen] + [dice.randrange(-(2**63), 2**63) for _ in chosen]
    rows = rows_of("polls", [_poll(value) for value in (*values, None)])
    expected = [value >> 6 in chosen for value in values]
    held = ValueBlocks({0: np.array([*chosen], np.int64)}).hold(rows)
    assert held.tolist() == [*expected, False]
    assert not ValueBlocks({1: np.array([*chosen], np.int64)}).hold(rows).any()


def _poll(value: int | None) -> dict[str, Any]:
    row = dict.fromkeys(TABLES["polls"].names, 0)
    return row | {"value": value, "topic": "t", "isolation": "read_committed"}


def test_polls_that_went_back_or_skipped_are_chosen_wherever_they_are(tmp_path: Path) -> None:
    chosen, expected = chosen_polls(tmp_path)
    assert chosen == expected


@pytest.mark.parametrize("statistics", [False, True])
def test_a_row_group_is_read_where_it_may_hold_a_block(tmp_path: Path, statistics: bool) -> None:
    builder = RecordBuilder().acked(*range(200), at=640, partition=2).final(1)
    record = builder.write(tmp_path / "run")
    path = next((record / "sends").iterdir())
    pq.write_table(pq.read_table(path), path, write_statistics=statistics)
    run_ = run_files(as_record(record, builder.manifest()))
    (group,) = row_groups([run_], "sends")

    def may_hold(*block: Any) -> bool:
        return OffsetBlocks([block]).may_hold(group)

    assert may_hold(0, "t", 2, 10)
    assert may_hold(0, "t", 2, 13)
    assert may_hold(0, "t", 2, 9) != statistics
    assert may_hold(0, "t", 2, 14) != statistics
    assert may_hold(0, "t", 1, 10) != statistics
    assert not may_hold(1, "t", 2, 10)


def replicas_of(rows: list[tuple[int, int, int | None]]) -> list[tuple[int, ...]]:
    """Return rows, xor and sum of each block of one replica's (offset, epoch, value)."""
    builder = RecordBuilder()
    for offset, epoch, value in rows:
        builder.replica(1, value, at=offset, epoch=epoch)
    batch = rows_of("replicas", [{"topic": "t", "partition": 0, **row} for row in builder.tables["replicas"]])
    summed_ = sum_replicas(batch, 7, {(0, "t", 0, 1): 100}).to_pylist()
    return [(row["block"], row["all_rows"], row["all_xor"], row["all_sum"]) for row in summed_]


def test_replicas_that_differ_in_anything_below_the_checkpoint_have_other_sums() -> None:
    log: list[tuple[int, int, int | None]] = [(offset, 0, offset + 1_000) for offset in range(90, 100)]
    same = replicas_of(log)
    assert same == replicas_of([*log, (100, 5, 5), (101, 5, None)])
    others = {
        "another epoch": [*log[:-1], (99, 1, 1_099)],
        "another value": [*log[:-1], (99, 0, 1_098)],
        "no value": [*log[:-1], (99, 0, None)],
        "a row less": log[:-1],
        "a row again": [*log, log[-1]],
        "values that changed places": [*log[:-2], (98, 0, 1_099), (99, 0, 1_098)],
        "epochs that changed places": [(offset, offset % 2, 7) for offset, _, _ in log],
    }
    found = [replicas_of(rows) for rows in others.values()]
    assert same not in found
    assert replicas_of([(offset, 1 - offset % 2, 7) for offset, _, _ in log]) not in found


def with_deletion(run_: RunFiles) -> RunFiles:
    deletion = Deletion(
        topic="t", partition=0, log_start=1, answered_ns=1, began_ns=None, ended_ns=None, is_first_epoch=True
    )
    return msgspec.structs.replace(run_, deletions=(deletion,))


def without_statistics(run_: RunFiles) -> RunFiles:
    files = {
        table: [msgspec.structs.replace(one, untold=frozenset(["topic"])) for one in some]
        for table, some in run_.files.items()
    }
    return msgspec.structs.replace(run_, files=files)


@pytest.mark.spark
@pytest.mark.parametrize("change", [with_deletion, without_statistics])
def test_runs_that_need_more_than_sums_are_left_to_spark(
    spark: SparkSession, runs: list[RunFiles], tmp_path: Path, change: Callable[[RunFiles], RunFiles]
) -> None:
    assert summed_rows(spark, [*runs[1:], change(runs[0])], tmp_path) is None


@pytest.mark.spark
def test_other_hosts_rows_are_left_to_spark(
    spark: SparkSession, runs: list[RunFiles], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_pass, "is_local", lambda _: False)
    assert summed_rows(spark, runs, tmp_path) is None


@pytest.mark.spark
@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("sends", "status", "ACKED"),
        ("sends", "txn_outcome", "COMMITTED"),
        ("sends", "offset", -5),
        ("polls", "offset", -1),
        ("polls", "isolation", "READ_COMMITTED"),
    ],
)
def test_values_that_the_format_does_not_have_are_refused_in_large_records_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, column: str, value: object
) -> None:
    monkeypatch.setattr(reconciling, "is_small", lambda _: False)
    builder = RecordBuilder().acked(1, 2, at=0).read(1, at=0).final(1, 2)
    builder.tables[table][0][column] = value
    with pytest.raises(UsageError) as caught:
        reconcile(spark, as_record(builder.write(tmp_path / "run"), builder.manifest()))
    assert caught.value.where is not None
    assert caught.value.where.endswith(f"table {table}, column {column}")
    assert caught.value.got == repr(value)


@pytest.mark.spark
def test_a_file_that_is_damaged_behind_its_footer_is_refused_in_large_records_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciling, "is_small", lambda _: False)
    builder = RecordBuilder().acked(*range(50), at=0).read(1, at=0).final(1, 2)
    record = builder.write(tmp_path / "run")
    path = next((record / "sends").iterdir())
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    with pytest.raises(UsageError, match="damaged"):
        reconcile(spark, as_record(record, builder.manifest()))


@pytest.mark.spark
def test_columns_of_other_types_are_summed_up_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciling, "is_small", lambda _: False)
    builder = RecordBuilder().acked(1, 2, 3, at=0).read(1, 2, at=0).final(1, 2)
    record = builder.write(tmp_path / "run")
    path = next((record / "sends").iterdir())
    rows = pq.read_table(path)
    for name, kind in {"topic": pa.large_string(), "offset": pa.uint64(), "partition": pa.int8()}.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].cast(kind))
    status = rows["status"].combine_chunks().dictionary_encode()
    rows = rows.set_column(rows.schema.get_field_index("status"), "status", status)
    pq.write_table(rows.drop_columns(["txn", "error"]), path)
    assert summed_rows(spark, [run_files(as_record(record, builder.manifest()))], tmp_path) is not None
    found = reconcile(spark, as_record(record, builder.manifest()))
    assert [(one.kind, one.count) for one in found.anomalies] == [("lost", 1)]


@pytest.mark.spark
@pytest.mark.parametrize("name", [b"\xff", b"t\x00"])
def test_topics_that_are_no_text_end_as_in_small_records(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes
) -> None:
    builder = RecordBuilder().acked(1, 2, at=0).read(1, at=0).final(1, 2)
    record = builder.write(tmp_path / "run")
    path = next((record / "sends").iterdir())
    rows = pq.read_table(path)
    topics = pa.array([name] * len(rows), pa.binary()).cast(pa.string(), safe=False)
    pq.write_table(rows.set_column(rows.schema.get_field_index("topic"), "topic", topics), path)
    ends = []
    for is_small in (True, False):
        monkeypatch.setattr(reconciling, "is_small", lambda _, small=is_small: small)
        try:
            found = reconcile(spark, as_record(record, builder.manifest()))
            ends.append(str((found.counts, found.anomalies, found.unknown)))
        except UsageError as error:
            ends.append(str(error))
    assert ends[0] == ends[1]
