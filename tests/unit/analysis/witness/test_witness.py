"""The second reading of the final log against the first: equal, different, or not known."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clause_cases import checked, judged
from judge_records import last_replica_standing
from records import RecordBuilder

from analysis.judge.rules.reads import witness_agrees
from analysis.witness.table import PROBLEM
from cluster.jars.connector import _artifact
from ebbtide.record.files import WITNESS_DIR
from ebbtide.record.tables import WITNESS_SCHEMA

FINAL = {0: 10, 1: 11, 2: None, 5: 12}
"""What the final read returned, by offset; 3 and 4 hold no records, 2 a damaged one."""


def judge_witness(folder: Path, witness: dict[int, int | None]) -> tuple[str, list[int]]:
    """The property's status, and the offsets of its evidence."""
    builder = RecordBuilder().read(99, at=0)
    for offset, value in FINAL.items():
        builder.final(value, at=offset)
    record = builder.write(folder)
    (record / WITNESS_DIR).mkdir()
    rows = [{"topic": "t", "partition": 0, "offset": offset, "value": value} for offset, value in witness.items()]
    pq.write_table(pa.Table.from_pylist(rows, schema=WITNESS_SCHEMA), record / WITNESS_DIR / "0.parquet")
    found = checked(witness_agrees, judged(record, manifest=builder.manifest())).found
    return found.status, [row["offset"] for row in found.evidence]


@pytest.mark.parametrize(
    ("witness", "status", "offsets"),
    [
        (FINAL, "holds", []),
        (FINAL | {1: 13}, "violated", [1]),
        (FINAL | {2: 13}, "violated", [2]),
        (FINAL | {1: None}, "violated", [1]),
        (FINAL | {3: 13}, "violated", [3]),
        ({0: 10, 2: None, 5: 12}, "violated", [1]),
        ({2: None, 5: 12}, "unknown", [0, 1]),
        ({2: None, 5: 13}, "violated", [5]),
    ],
    ids=["same", "other value", "not damaged", "damaged", "one more", "one less", "start removed", "both"],
)
def test_both_readings_are_compared(
    tmp_path: Path, witness: dict[int, int | None], status: str, offsets: list[int]
) -> None:
    assert judge_witness(tmp_path / "run", witness) == (status, offsets)


def test_a_difference_counts_however_many_records_retention_may_have_removed_before_it(tmp_path: Path) -> None:
    builder = RecordBuilder()
    for offset in range(40):
        builder.final(offset, at=offset)
    record = builder.write(tmp_path / "run")
    (record / WITNESS_DIR).mkdir()
    rows = [{"topic": "t", "partition": 0, "offset": offset, "value": offset} for offset in range(30, 39)]
    pq.write_table(pa.Table.from_pylist(rows, schema=WITNESS_SCHEMA), record / WITNESS_DIR / "0.parquet")
    found = checked(witness_agrees, judged(record, manifest=builder.manifest())).found
    assert (found.status, [row["offset"] for row in found.evidence]) == ("violated", [39])


def test_without_a_witness_nothing_is_claimed_and_a_failed_one_is_unknown(tmp_path: Path) -> None:
    builder = RecordBuilder().final(1)
    record = builder.write(tmp_path / "run")
    of_run = judged(record, manifest=builder.manifest())
    assert checked(witness_agrees, of_run).found.status == "not-exercised"
    (record / WITNESS_DIR).mkdir()
    (record / WITNESS_DIR / PROBLEM).write_text("no answer")
    found = checked(witness_agrees, of_run).found
    assert (found.status, found.evidence) == ("unknown", [{"why": "no answer"}])


def test_jars_are_distinguished_by_their_names_without_versions() -> None:
    assert _artifact(Path("kafka-clients-3.9.0.jar")) == "kafka-clients"
    assert _artifact(Path("spark-sql-kafka-0-10_2.13-4.0.0.jar")) == "spark-sql-kafka-0-10_2.13"
    assert _artifact(Path("spark-tags_2.13-4.0.1.jar")) == "spark-tags_2.13"
    assert _artifact(Path("scala-parallel-collections_2.13-1.2.0.jar")) == "scala-parallel-collections_2.13"


def test_the_property_is_exercised_only_where_there_was_a_witness(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.write()
    assert {one.name: one.status for one in story.judge().properties}["witness-agrees"] == "not-exercised"
    (tmp_path / WITNESS_DIR).mkdir()
    (tmp_path / WITNESS_DIR / PROBLEM).write_text("no answer")
    assert {one.name: one.status for one in story.judge().properties}["witness-agrees"] == "unknown"


def test_a_witness_that_fails_leaves_a_run_inconclusive_that_would_be_as_predicted(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.predict('loss = { committed = "some" }')
    assert story.judge().outcome == "as-predicted"
    (tmp_path / WITNESS_DIR).mkdir()
    (tmp_path / WITNESS_DIR / PROBLEM).write_text("no answer")
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert verdict.why[0] == "witness-agrees (harness) is unknown: no answer"
