"""What NumPy sums up and chooses of the rows, whatever their batches, and what times tell of the clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from reconcile_histories import random_run
from reconcile_rows import OVERLAPS, chosen_polls, overlap, rows_of, sum_up, wrong_orders
from records import RecordBuilder, as_record

from analysis.judge.rules.appends import send_order
from analysis.judge.rules.groups.copies_asked import CopiesAsked
from analysis.judge.rules.losses.hw_regression import Lower
from analysis.judge.rules.reads.poll_skip import Skips
from analysis.judge.rules.reads.unseen import Unseen
from analysis.reconcile.model import HwRegression
from analysis.record import scans as batches
from analysis.record.groups import Groups, Ints, bit_count, hashed, highest_bit
from analysis.record.scans import row_groups
from analysis.rows import buckets
from analysis.rows.buckets import VALUE_SUM, SumStore
from analysis.rows.choose import OffsetBlocks, ValueBlocks
from analysis.rows.question import KindQuestion
from analysis.rows.replicas import Replicas
from analysis.rows.summing import SummedRun
from analysis.rows.values import Values
from bench.reconciling import reconcile
from ebbtide.errors import UsageError
from ebbtide.record.tables import TABLES


def summed(builder: RecordBuilder, folder: Path) -> SummedRun:
    record = as_record(builder.write(folder / "run"), builder.manifest())
    return sum_up(record, folder)


@pytest.mark.parametrize(("name", "number"), [("BATCH_ROWS", 3), ("HELD_BYTES_MAX", 200)])
def test_answers_are_the_same_in_small_batches_and_with_sums_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    dice = random.Random(64)
    for at in range(4):
        (tmp_path / str(at)).mkdir()
        builder = random_run(dice)
        before = summed(builder, tmp_path / str(at))
        with monkeypatch.context() as patched:
            patched.setattr(batches if name == "BATCH_ROWS" else buckets, name, number)
            after = sum_up(before.run, tmp_path)
        assert after.facts.counts == before.facts.counts
        assert sorted(map(str, after.facts.sends)) == sorted(map(str, before.facts.sends))
        assert sorted(map(str, after.facts.polls)) == sorted(map(str, before.facts.polls))
        assert after.answers.possible == before.answers.possible
        assert str(after.answers.offsets) == str(before.answers.offsets)
        assert str(after.answers.values) == str(before.answers.values)
        assert before.answers.rows.keys() == after.answers.rows.keys()
        for table in before.answers.rows:
            tables = [one.answers.rows[table].to_pylist() for one in (before, after)]
            assert sorted(map(str, tables[0])) == sorted(map(str, tables[1]))
    assert any(path.name.startswith("sums-") for path in tmp_path.iterdir()) == (name == "HELD_BYTES_MAX")


def test_sums_in_files_are_added_to_those_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "HELD_BYTES_MAX", 500)
    store = SumStore(VALUE_SUM, lambda: tmp_path)
    blocks = np.array([5, 3, 3 + (1 << 40)])
    for _ in range(50):
        store.add((), block=blocks, kind=np.zeros(3, np.int64), rows=np.array([1, 2, 4]), mask=np.array([1, 2, 4]))
    found = [tuple(map(int, row)) for bucket in store.buckets() for row in bucket]
    assert sorted(found) == [(3, 0, 100, 2), (5, 0, 50, 1), (3 + (1 << 40), 0, 200, 4)]


def whole() -> RecordBuilder:
    return RecordBuilder().acked(1, 2, 3, at=0).read(1, 2, 3, at=0, leader_epoch=0).final(1, 2, 3, leader_epoch=0)


def test_a_record_without_anomalies_has_no_possible_kind(tmp_path: Path) -> None:
    builder = whole().served(1).served(3).replica(1, 1, 2, 3).replica(2, 1, 2, 3).checkpoint(1, 3).checkpoint(2, 2)
    assert summed(builder, tmp_path).answers.possible == frozenset()


@pytest.mark.parametrize(
    ("builder", "question"),
    [
        (whole().acked(4, at=3), Values),
        (whole().read(5, at=2), Values),
        (whole().read(1, 2, 3, at=0, leader_epoch=1), Values),
        (whole().send(2, at=-1, status="failed"), Values),
        (RecordBuilder().acked(1, 2, 3, at=0).read(1, 3, at=0).final(1, 2, 3), Unseen),
        (whole().read(3, at=2, prev_offset=0, session=2), Skips),
        (whole().served(3).served(2), Lower),
        (whole().replica(1, 1, 2, 3).replica(2, 1, 5, 3).checkpoint(1, 2).checkpoint(2, 3), Replicas),
    ],
    ids=["lost", "replaced", "another epoch", "failed and read", "passed over", "skipped", "HW", "replicas"],
)
def test_what_may_be_an_anomaly_is_asked_for(
    tmp_path: Path, builder: RecordBuilder, question: type[KindQuestion]
) -> None:
    assert question in summed(builder, tmp_path).answers.possible


def test_replicas_are_compared_below_the_lower_of_two_checkpoints(tmp_path: Path) -> None:
    builder = whole().replica(1, 1, 2, 3).replica(2, 1, 2, 4).checkpoint(1, 3).checkpoint(2, 2)
    assert Replicas not in summed(builder, tmp_path).answers.possible


def test_pairs_out_of_order_are_found_in_batches_that_overlap_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_ROWS", 7)
    wrong, overlapping, found = wrong_orders()
    assert wrong == 0
    assert overlapping > 10
    assert found > 20
    monkeypatch.setattr(send_order, "ROWS_MAX", 5)
    assert wrong_orders()[0] == 0, "some sequences at a time"


@pytest.mark.parametrize(("sequences", "expected"), OVERLAPS)
def test_batches_whose_sequences_overlap_are_noticed(sequences: tuple[tuple[int, ...], ...], expected: bool) -> None:
    assert overlap(sequences) == expected


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


def test_bits_are_counted_and_the_highest_is_found() -> None:
    masks = [0, 1, 2, 5, 2**63 - 1, -1, -(2**63), 1 << 40]
    expected = [bin(mask & (2**64 - 1))[2:].lstrip("0") for mask in masks]
    assert bit_count(np.array(masks)).tolist() == [bits.count("1") for bits in expected]
    assert highest_bit(np.array(masks)).tolist() == [len(bits) - 1 for bits in expected]


def test_a_hash_distinguishes_places_values_and_nulls() -> None:
    offsets, values = np.array([0, 0, 1, 1, 2, 2]), np.array([1, 2, 1, 2, 0, 0])
    unknown = np.array([False, False, False, False, False, True])
    hashes = hashed(7, offsets, values, unknown=unknown)
    assert len(set(hashes.tolist())) == 6
    # What changed places: the same values at the same offsets.
    assert hashes[0] ^ hashes[3] != hashes[1] ^ hashes[2]
    assert hashes[[0, 3]].sum() != hashes[[1, 2]].sum()
    assert hashes.tolist() != hashed(8, offsets, values, unknown=unknown).tolist()


def test_values_are_chosen_by_their_block_and_never_by_their_bucket() -> None:
    dice = random.Random(966)
    chosen = {dice.randrange(-(2**57), 2**57) for _ in range(5_000)} | {0, -1}
    values = [block * 64 + dice.randrange(64) for block in chosen] + [dice.randrange(-(2**63), 2**63) for _ in chosen]
    rows = rows_of("polls", [_poll(value) for value in (*values, None)])
    expected = [value >> 6 in chosen for value in values]
    held = ValueBlocks(np.array([*chosen], np.int64)).hold(rows)
    assert held.tolist() == [*expected, False]


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
    (group,) = row_groups(as_record(record, builder.manifest()), 0, "sends")

    def may_hold(partition: int, block: int) -> bool:
        return OffsetBlocks({("t", partition): np.array([block])}).may_hold(group)

    assert may_hold(2, 10)
    assert may_hold(2, 13)
    assert may_hold(2, 9) != statistics
    assert may_hold(2, 14) != statistics
    assert may_hold(1, 10) != statistics


def test_replicas_that_differ_in_anything_below_the_checkpoint_differ(tmp_path: Path) -> None:
    log: list[tuple[int, int, int | None]] = [(offset, 0, offset + 1_000) for offset in range(90, 100)]
    others: dict[str, list[tuple[int, int, int | None]]] = {
        "another epoch": [*log[:-1], (99, 1, 1_099)],
        "another value": [*log[:-1], (99, 0, 1_098)],
        "no value": [*log[:-1], (99, 0, None)],
        "a row less": log[:-1],
        "a row again": [*log, log[-1]],
        "values that changed places": [*log[:-2], (98, 0, 1_099), (99, 0, 1_098)],
    }
    assert not differ(tmp_path / "same", log, [*log, (100, 5, 5), (101, 5, None)])
    for name, other in others.items():
        assert differ(tmp_path / name, log, other), name


def differ(folder: Path, log: list[tuple[int, int, int | None]], other: list[tuple[int, int, int | None]]) -> bool:
    builder = RecordBuilder().checkpoint(1, 100).checkpoint(2, 100)
    for broker, rows in ((1, log), (2, other)):
        for offset, epoch, value in rows:
            builder.replica(broker, value, at=offset, epoch=epoch)
    folder.mkdir()
    return Replicas in summed(builder, folder).answers.possible


def test_a_file_that_is_damaged_behind_its_footer_is_refused(tmp_path: Path) -> None:
    builder = RecordBuilder().acked(*range(50), at=0).read(1, at=0).final(1, 2)
    record = builder.write(tmp_path / "run")
    path = next((record / "sends").iterdir())
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    with pytest.raises(UsageError, match="damaged") as caught:
        sum_up(as_record(record, builder.manifest()))
    assert caught.value.where == str(path)


def test_columns_of_other_types_are_summed_up_too(tmp_path: Path) -> None:
    builder = RecordBuilder().acked(1, 2, 3, at=0).read(1, 2, at=0).final(1, 2)
    record = builder.write(tmp_path / "run")
    path = next((record / "sends").iterdir())
    rows = pq.read_table(path)
    for name, kind in {"topic": pa.large_string(), "offset": pa.uint64(), "partition": pa.int8()}.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].cast(kind))
    status = rows["status"].combine_chunks().dictionary_encode()
    rows = rows.set_column(rows.schema.get_field_index("status"), "status", status)
    pq.write_table(rows.drop_columns(["txn", "error"]), path)
    found = sum_up(as_record(record, builder.manifest()))
    assert found.facts.counts.acked == 3
    assert found.answers.possible == {Values}


@pytest.mark.parametrize(("copies", "possible"), [((0, 1), False), ((0,), True), ((0, 1, 1), True)])
def test_inputs_that_have_one_copy_each_need_no_second_look(
    tmp_path: Path, copies: tuple[int, ...], possible: bool
) -> None:
    values = range(11, 11 + len(copies))
    builder = RecordBuilder().acked(1, 2, *values, at=0).read(1, 2, *values, at=0).final(1, 2, *values)
    for offset, value in zip(copies, values, strict=True):
        builder.copy(value, of=offset)
    builder.answer(None, 2, group="copiers")
    assert (CopiesAsked in summed(builder, tmp_path).answers.possible) == possible


# Whether the harness's clock was set back, by the order in which a broker's answers were written down.


S = 1_000_000_000


def rising_watermarks(builder: RecordBuilder, *at_s: float, broker: int = 1, epoch: int | None = 0) -> RecordBuilder:
    """A HW that only rises, as one broker serves it, with the times that the clock had."""
    for number, at in enumerate(at_s):
        at_ns = int(at * S)
        builder.served(100 + 10 * number, broker=broker, epoch=epoch, asked_ns=at_ns - 1, at_ns=at_ns)
    return builder


def clock_went_back(builder: RecordBuilder, folder: Path) -> bool:
    return sum_up(as_record(builder.write(folder / "run"), builder.manifest())).facts.clock_went_back


def test_answers_in_the_order_of_their_times_tell_of_no_step(tmp_path: Path) -> None:
    builder = rising_watermarks(rising_watermarks(RecordBuilder(), 10, 10.1, 10.1, 12), 9, 11, broker=2)
    assert not clock_went_back(builder.checkpoint(1, 5, at_ns=3), tmp_path)


@pytest.mark.parametrize(
    "build",
    [
        lambda b: rising_watermarks(b, 10, 10.1, 8.2, 8.3),
        lambda b: rising_watermarks(rising_watermarks(b, 10, 10.1), 8.2, 8.3, epoch=1),
        lambda b: b.served(100, asked_ns=10 * S, at_ns=8 * S),
        lambda b: rising_watermarks(rising_watermarks(rising_watermarks(b, 10).on("u"), 10).on("t"), 8),
    ],
    ids=["between two answers", "at an election", "during one answer", "partitions in turn"],
)
def test_a_broker_that_answered_before_it_did_tells_that_the_clock_was_set_back(
    tmp_path: Path, build: Callable[[RecordBuilder], RecordBuilder]
) -> None:
    assert clock_went_back(build(RecordBuilder()), tmp_path)


def test_brokers_and_partitions_are_in_no_order_among_themselves(tmp_path: Path) -> None:
    builder = rising_watermarks(rising_watermarks(RecordBuilder(), 10, 10.1), 8, 8.1, broker=2)
    assert not clock_went_back(rising_watermarks(builder.on("u"), 7, 7.1), tmp_path)


def test_answers_that_are_not_judged_do_not_count(tmp_path: Path) -> None:
    builder = (
        rising_watermarks(RecordBuilder(), 10, 9, epoch=None)
        .served(1, source="fetch", at_ns=20)
        .served(2, source="fetch")
    )
    assert not clock_went_back(builder.served(1, source="fetch", at_ns=20), tmp_path)


def test_a_record_without_answers_tells_nothing(tmp_path: Path) -> None:
    assert not clock_went_back(RecordBuilder(), tmp_path)
    assert not clock_went_back(RecordBuilder().empty("watermarks"), tmp_path)


@pytest.mark.spark
def test_a_clock_that_was_set_back_makes_no_hw_go_back(spark: SparkSession, tmp_path: Path) -> None:
    builder = rising_watermarks(RecordBuilder(), 10, 10.1, 8.2, 8.3)
    found = reconcile(spark, as_record(builder.write(tmp_path / "run"), builder.manifest()))
    assert (found.anomalies, found.groups_of(HwRegression)) == ([], [])
    assert "set back" in found.unknown["hw-regression"]
