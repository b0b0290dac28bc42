"""The story of a lost range says when it was sent, who held it, and which election lost it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from judge_records import Story, last_replica_standing, ns
from records import as_record, write_table

from analysis.record.timeline import load_timeline
from analysis.report.stories import LossStory, stories_of
from ebbtide.record.tables import ANOMALY_SCHEMA


def story_of(story: Story) -> LossStory:
    verdict = story.judge()
    (found,) = stories_of(as_record(story.record), verdict, load_timeline(as_record(story.record)), ns(0))
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
