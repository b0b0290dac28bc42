"""Coverage facts of topics that were made again: how many, and what they have of the old topics' records."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from records import RecordBuilder, as_record

from analysis.judge.coverage.topic_facts import topic_facts
from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import Topology, write_manifest
from ebbtide.record.steps import StepEntry

MADE, READ, REVIVED = "topics-recreated", "records-of-deleted-topics-read", "replicas-of-deleted-topics-made"
PROOF = {"answer": "NONE", "since": 1, "asked_ns": 1, "known_ns": 2, "unaware": [], "record": {"topic_id": "B"}}
STEP = StepEntry(index=0, step="create-topic", parameters={"topic": "t"}, proof=PROOF)


def written(folder: Path) -> RecordBuilder:
    """Records 0 to 2 of the deleted topic, and record 3 of the new one."""
    return RecordBuilder().on("t@1").acked(0, 1, 2, at=0).not_in_final_read().on("t").acked(3, at=0)


def test_no_record_of_the_deleted_topic_is_in_the_new_one(tmp_path: Path) -> None:
    record = written(tmp_path).final(3).write(tmp_path / "run")
    assert topic_facts(as_record(record), [STEP]) == {MADE: 1, READ: 0, REVIVED: 0}


def test_records_of_the_deleted_topic_that_the_final_read_returned_are_counted(tmp_path: Path) -> None:
    record = as_record(written(tmp_path).final(3, 1, 2).write(tmp_path / "run"))
    record.split_steps = [STEP]
    assert topic_facts(record, record.split_steps) == {MADE: 1, READ: 2, REVIVED: 0}


def test_without_a_final_read_nobody_knows_what_the_new_topic_has(tmp_path: Path) -> None:
    record = written(tmp_path).not_in_final_read().write(tmp_path / "run")
    assert topic_facts(as_record(record), [STEP]) == {MADE: 1, REVIVED: 0}


def test_a_run_that_made_no_topic_again_says_so(tmp_path: Path) -> None:
    record = RecordBuilder().acked(0, at=0).final(0).write(tmp_path / "run")
    assert topic_facts(as_record(record), []) == {MADE: 0, READ: 0, REVIVED: 0}
    assert topic_facts(as_record(record), None) == {}


DELETION = StepEntry(
    index=0, step="delete-topic", parameters={"topic": "t"}, effect_ns=10**18, proof={"record": {"topic_id": "A-_9"}}
)
LOADER = "[kafka-3-metadata-loader-event-handler] INFO state.change.logger - [Broker id=3]"
BEFORE, AFTER = "2001-09-09T01:46:39.999Z", "2001-09-09T01:46:40.001Z"


@pytest.mark.parametrize(
    ("line", "revived"),
    [
        (f"{BEFORE} {LOADER} Creating new partition t-0 with topic id A-_9.", 0),
        (f"{AFTER} {LOADER} Creating new partition t-0 with topic id A-_9.", 1),
        (f"{AFTER} {LOADER} Creating new partition t-0 with topic id B.", 0),
        (f"{AFTER} {LOADER} Expected partition t-0 with topic id A-_9 to exist, but it was missing. Creating...", 1),
    ],
)
def test_a_replica_of_the_deleted_topic_that_a_broker_made_later_is_counted(
    tmp_path: Path, line: str, revived: int
) -> None:
    builder = written(tmp_path).final(3)
    record = builder.write(tmp_path / "run")
    write_manifest(RecordFolder(record), msgspec.structs.replace(builder.manifest(), topology=Topology(brokers=(3,))))
    assert REVIVED not in topic_facts(as_record(record), [DELETION, STEP])
    (record / "logs").mkdir()
    # A release that logs other words would otherwise never have made one.
    (record / "logs" / "broker-3.log").write_text(f"{AFTER} {LOADER} Made t-0 of A-_9.\n", "utf-8")
    assert REVIVED not in topic_facts(as_record(record), [DELETION, STEP])
    (record / "logs" / "broker-3.log").write_text(line + "\n", "utf-8")
    assert topic_facts(as_record(record), [DELETION, STEP])[REVIVED] == revived
