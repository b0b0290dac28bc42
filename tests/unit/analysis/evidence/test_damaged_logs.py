"""Which damage of a replica's log is damage to committed records: not the holes that compaction leaves."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import pytest
from records import RecordBuilder, as_record

from analysis.evidence.collect import write_replicas
from analysis.rows.facts import CheckpointFacts, DamagedLog, Facts
from analysis.rows.policies import PolicyFacts
from analysis.rows.summing import facts_of
from ebbtide.record.files import RecordFolder

COMPACTED_BY_DEFAULT = '[cluster]\nbroker_properties = { "log.cleanup.policy" = "compact,delete" }\n'


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A run with one replica, whose log has a hole from offset 1 to 5 and ends at 6."""
    RecordBuilder().acked(1, at=0).final(1, at=0).write(tmp_path)
    for base in (0, 5):
        build.write_log(tmp_path / "raw" / "broker-1" / "t-0", build.plain_batch(base, b"1"), base=base)
    write_replicas(RecordFolder(tmp_path), lambda _: 1)
    return tmp_path


def facts_with(record: Path, *policies: PolicyFacts, high_watermark: int = 6) -> Facts:
    builder = RecordBuilder().acked(1, at=0).final(1, at=0)
    checkpoints = [CheckpointFacts("t", 0, 1, high_watermark)]
    return facts_of(0, as_record(record, builder.manifest()), policies, checkpoints=checkpoints)


def damaged_logs_of(record: Path, *policies: PolicyFacts, high_watermark: int = 6) -> tuple[DamagedLog, ...]:
    return facts_with(record, *policies, high_watermark=high_watermark).damaged_logs


def test_a_hole_below_the_high_watermark_is_damage(record: Path) -> None:
    (damaged,) = damaged_logs_of(record)
    assert "from offset 1 on, below its last known HW 6" in damaged.why


def test_a_hole_above_the_high_watermark_is_none(record: Path) -> None:
    assert damaged_logs_of(record, high_watermark=1) == ()


@pytest.mark.parametrize("resource", ["topic:t", "cluster", "broker:1"])
def test_a_hole_of_a_topic_that_was_compacted_is_none(record: Path, resource: str) -> None:
    assert damaged_logs_of(record, PolicyFacts(resource, "compact")) == ()


def test_a_hole_is_none_where_the_brokers_compact_by_default(record: Path) -> None:
    (record / "scenario.toml").write_text(COMPACTED_BY_DEFAULT)
    assert damaged_logs_of(record) == ()


def test_a_topics_own_policy_outdoes_the_default(record: Path) -> None:
    (record / "scenario.toml").write_text(COMPACTED_BY_DEFAULT)
    assert len(damaged_logs_of(record, PolicyFacts("topic:t", "delete"))) == 1


def test_other_damage_counts_on_a_compacted_topic_too(record: Path) -> None:
    path = record / "raw" / "broker-1" / "t-0" / "00000000000000000005.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    (record / "evidence.json").unlink()
    write_replicas(RecordFolder(record), lambda _: 1)
    (damaged,) = damaged_logs_of(record, PolicyFacts("topic:t", "compact"))
    assert "CRC-32C does not match, from offset 5 on" in damaged.why
