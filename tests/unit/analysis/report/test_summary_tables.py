"""The summary of judged runs as a table, and the story of a lost range."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from judge_records import Story, last_replica_standing, ns
from records import as_record, write_table

from analysis.report.stories import LossStory, stories_of
from analysis.report.summary import JudgedRun, judged_run, summary_text
from analysis.sentences.protocol import protocol_row
from ebbtide.record.tables import ANOMALY_SCHEMA
from ebbtide.record.verdict import PropertyResult, PropertyStatus
from ebbtide.rules.table import NO_COMMITTED_LOSS


@pytest.fixture
def side_by_side(tmp_path: Path) -> list[JudgedRun]:
    runs = []
    for name, release in (("one", "3.9.1"), ("two", "3.7.2")):
        (tmp_path / name).mkdir()
        story = last_replica_standing(tmp_path / name, kafka=release)
        story.regress(1000, 0, epochs=(0, 2), at_s=(9, 22))
        verdict = story.judge()
        runs.append(judged_run(as_record(tmp_path / name), verdict))
    return runs


def test_the_summary_puts_the_runs_side_by_side(side_by_side: list[JudgedRun]) -> None:
    lines = {line[:21].strip(): line[21:].split("  ") for line in summary_text(side_by_side, 100).splitlines()}
    assert lines["Kafka"][0].strip() == "3.9.1"
    assert "3.7.2" in lines["Kafka"][-1]
    assert lines["lost, committed"][0].strip() == "1,000"
    assert lines["guilty election"][0] == "broker 1, leader epoch 2, metadata"
    assert lines["HW went back"][0] == "from 1,000 to 0 (t-0)"
    assert lines["outcome"][0] == "inconclusive"


def test_the_summary_says_what_the_protocol_says_whatever_was_predicted(side_by_side: list[JudgedRun]) -> None:
    one = side_by_side[0]

    def describe_status(status: PropertyStatus | None, **changes: object) -> str:
        properties = (
            [PropertyResult(name=NO_COMMITTED_LOSS, kip="KIP-966", status=status)] if status is not None else []
        )
        return protocol_row(msgspec.structs.replace(one.verdict, properties=properties, **changes), None)

    assert describe_status("violated") == f"violated:\n{NO_COMMITTED_LOSS}"
    assert describe_status("holds") == "allows the loss"
    assert (
        describe_status("unknown")
        == describe_status("unknown", losses=[], anomalies=[])
        == f"cannot tell:\n{NO_COMMITTED_LOSS}"
    )
    assert describe_status(None) == "cannot tell"
    assert describe_status("holds", losses=[], anomalies=[]) == "nothing violated"
    assert describe_status("holds", losses=[]) == "cannot tell:\nwhy 1,000 records are lost"
    unexplained = msgspec.structs.replace(one.verdict.losses[0], committed=False, cause="unexplained")
    assert describe_status("holds", losses=[unexplained]) == "does not allow the loss"


# The story of a lost range says when it was sent, who held it, and which election lost it.


def story_of(story: Story) -> LossStory:
    verdict = story.judge()
    (found,) = stories_of(as_record(story.record), verdict, ns(0))
    return found


def with_sends(story: Story) -> None:
    """Values 0 to 999 were sent and lost; later others were acked at the same offsets."""
    send = {"topic": "t", "partition": 0, "producer": 1, "acks": -1, "status": "acked", "error": None}
    columns = {"txn": None, "txn_outcome": None}
    sends = [
        {
            **send,
            **columns,
            "value": value,
            "sequence": value,
            "offset": value % 1000,
            "sent_ns": ns(at),
            "done_ns": ns(at + 1),
        }
        for value in range(2000)
        for at in (3 if value < 1000 else 40,)
    ]
    details = '{"acks":-1,"committed":true}'
    lost = [
        {"kind": "lost", "topic": "t", "partition": 0, "offset": v, "value": v, "details": details} for v in range(1000)
    ]
    story.tables["sends"] += sends
    write_table(story.record, "anomalies", pa.Table.from_pylist(lost, schema=ANOMALY_SCHEMA))


def test_a_lost_range_is_told_from_its_sending_to_the_logs_after_the_run(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    with_sends(story)
    found = story_of(story)
    assert found.title == "1,000 committed records of t-0, offsets 0 to 999, acks=all"
    assert [line.at for line in found.lines] == ["+3.000 s", "+4.000 s", "+12.000 s", "+21.000 s"]
    sent, acked, power, elected = (line.text for line in found.lines)
    assert sent.startswith("The producer sent the first of them")
    assert "The ISR was [1, 2, 3]; acks=all waits for each of its members." in acked
    assert power.startswith("Broker 1 lost power: its log of t-0 ended at 1,000 before and at 0 afterwards.")
    assert elected.startswith("Broker 1 was elected from the ISR under leader epoch 2, without the records.")
    assert [line.is_loss for line in found.lines] == [False, False, False, True]
    assert "KIP-966" in found.clause


def test_other_records_at_the_lost_offsets_are_not_taken_for_the_lost_ones(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    with_sends(story)
    story.log(2, (2, 0, 9))
    story.tables["replicas"] = [{**row, "value": row["value"] + 1000} for row in story.tables["replicas"]]
    found = story_of(story)
    assert found.lines[-1].text == "Other records stand at these offsets now: 10 on broker 2."
    assert "+40" not in " ".join(line.text for line in found.lines)


def test_without_sends_the_story_says_that_it_does_not_know_when(tmp_path: Path) -> None:
    found = story_of(last_replica_standing(tmp_path))
    assert found.lines[0].text == "When they were sent is not known."
