"""Records that are cut, foreign or made to harm: one clear error or unknown, never a traceback or a wrong verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from records import RecordBuilder, as_record

from analysis.items import check_record, reconcile_checked
from bench.reconciling import reconcile, reconcile_all
from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import FinalOffsets, ProducerSetup, read_manifest


@pytest.mark.parametrize(
    ("ends", "what"),
    [
        ({"no partition": FinalOffsets(log_start=0, high_watermark=1)}, "not a partition"),
        ({"t-²": FinalOffsets(log_start=0, high_watermark=1)}, "not a partition"),
        ({"t-99999999999": FinalOffsets(log_start=0, high_watermark=1)}, "not a partition"),
        ({"t-" + "9" * 5_000: FinalOffsets(log_start=0, high_watermark=1)}, "not a partition"),
        ({"t-00": FinalOffsets(log_start=0, high_watermark=1)}, "not a partition"),
        ({"t-0": FinalOffsets(log_start=0, high_watermark=2**70)}, "not valid offsets"),
        ({"t-0": FinalOffsets(log_start=-1, high_watermark=1)}, "not valid offsets"),
        ({"t-0": FinalOffsets(log_start=0, high_watermark=1, last_stable=2**70)}, "not valid offsets"),
    ],
)
def test_final_offsets_that_cannot_be_are_refused(tmp_path: Path, ends: dict[str, FinalOffsets], what: str) -> None:
    builder = RecordBuilder().acked(1, at=0).final(1)
    record = builder.write(tmp_path / "run")
    manifest = msgspec.structs.replace(builder.manifest(), final_offsets=ends)
    with pytest.raises(Problems, match=what):
        reconcile(None, as_record(record, manifest))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"final_consumer": 2**70},
        {"final_consumer": -1},
        {"producers": {str(2**70): ProducerSetup(acks=1)}},
        {"producers": {"9" * 5_000: ProducerSetup(acks=1)}},
        {"producers": {"one": ProducerSetup(acks=1)}},
    ],
)
def test_ids_that_no_client_has_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    builder = RecordBuilder().acked(1, at=0).final(1)
    manifest = msgspec.structs.replace(builder.manifest(), **changes)
    with pytest.raises(Problems, match="not a client's id") as caught:
        reconcile(None, as_record(builder.write(tmp_path / "run"), manifest))  # type: ignore[arg-type]
    assert len(str(caught.value)) < 500


def test_a_manifest_with_numbers_of_another_type_or_a_newer_version_is_refused(tmp_path: Path) -> None:
    record = RecordBuilder().acked(1, at=0).write(tmp_path / "run")
    (record / "manifest.json").write_text('{"record_version": 1, "run_id": "r", "final_consumer": "zero"}')
    with pytest.raises(UsageError, match="does not fit"):
        read_manifest(RecordFolder(record))
    (record / "manifest.json").write_text('{"record_version": 2, "run_id": "r"}')
    with pytest.raises(UsageError, match="newer version"):
        read_manifest(RecordFolder(record))


AT_THE_ENDS: dict[str, Callable[[RecordBuilder], RecordBuilder]] = {
    "highest offset": lambda b: b.read(1, at=2**63 - 1, prev_offset=-(2**63)).final(1),
    "lowest offset": lambda b: b.read(1, at=-(2**63), prev_offset=2**63 - 1).final(1),
    "highest times": lambda b: b.acked(1, at=2**63 - 2).served(2**63 - 1, asked_ns=-(2**63), at_ns=2**63 - 1).final(1),
    "a jump over almost all offsets": lambda b: (
        b.final(1, at=0).read(1, at=0).read(1, at=2**62, prev_offset=0).final(1, at=2**62)
    ),
}


@pytest.mark.spark
def test_numbers_at_the_ends_of_their_types_end_in_anomalies_or_in_one_clear_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = []
    for name, build in AT_THE_ENDS.items():
        builder = build(RecordBuilder())
        record = as_record(builder.write(tmp_path / name), builder.manifest())
        with contextlib.suppress(EbbtideError):
            check_record(record)
            records.append(record)
    assert records
    for found in reconcile_checked(spark, records, lambda _: None):
        assert isinstance(found, EbbtideError) or all(one.count < 10 for one in found.anomalies)


@pytest.mark.spark
def test_one_damaged_record_among_many_is_named_before_any_is_touched(spark: SparkSession, tmp_path: Path) -> None:
    runs = []
    for number in range(3):
        builder = RecordBuilder().acked(1, 2, at=0).final(1)
        runs.append(as_record(builder.write(tmp_path / f"run-{number}"), builder.manifest()))
    path = runs[1].folder / "sends" / "part-0.parquet"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(Problems, match="damaged") as caught:
        reconcile_all(spark, runs)
    assert "run-1" in str(caught.value)
    assert not any((record.folder / "anomalies").exists() for record in runs)


@pytest.mark.spark
def test_many_records_are_judged_apart_and_nothing_is_written_besides(spark: SparkSession, tmp_path: Path) -> None:
    """The same values at the same offsets in runs of which only some lost them.

    Names may look like paths, and a link may stand in the place of the anomalies.
    """
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    runs = []
    for number in range(4):
        builder = RecordBuilder(final_consumer=9999 if number != 3 else None).on("../../outside/x").acked(1, 2, at=0)
        builder.final(*((1, 2) if number % 2 else (1,)))
        manifest = msgspec.structs.replace(builder.manifest(), run_id="../../outside")
        runs.append(as_record(builder.write(tmp_path / "runs" / f"run {number} %é"), manifest))
    # A link that is there before is refused.
    (runs[2].folder.path / "anomalies").symlink_to(outside)
    found = reconcile_all(spark, runs)
    assert {one.topic for run in found for one in run.anomalies} == {"../../outside/x"}
    assert [path.name for path in outside.iterdir()] == ["kept"]
    assert {path.name for path in tmp_path.iterdir()} == {"outside", "runs"}
    assert len([*(tmp_path / "runs").iterdir()]) == len(runs)
    assert [[one.kind for one in run.anomalies] for run in found] == [["lost"], [], ["lost"], []]
    assert [run.counts.polls for run in found] == [1, 2, 1, 2]
    assert ["lost" in run.unknown for run in found] == [False, False, False, True]
    assert [pq.read_table(record.folder / "anomalies").num_rows for record in runs] == [1, 0, 1, 0]
    assert not [path for record in runs for path in record.folder.path.glob(".anomalies*")]
