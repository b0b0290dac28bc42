"""What clients saw below min ISR, and while an AlterPartition was held: counted only where the leader surely knew."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
import pytest
from judge_records import Story, ns

from ebbtide.record.steps import StepEntry

BELOW = "below-min-isr"
HELD = "while-alter-partition-held"


def send(story: Story, at_s: float, acks: int, *, done_s: float | None, status: str = "acked") -> None:
    rows = story.tables["sends"]
    rows.append(
        {
            "topic": "t",
            "partition": 0,
            "value": len(rows),
            "producer": 1,
            "sequence": len(rows),
            "acks": acks,
            "status": status,
            "offset": len(rows) if status == "acked" and acks else None,
            "error": None,
            "txn": None,
            "txn_outcome": None,
            "sent_ns": ns(at_s),
            "done_ns": None if done_s is None else ns(done_s),
        }
    )


def poll(story: Story, at_s: float, offset: int, *, consumer: int = 1, epoch: int | None = 0) -> None:
    story.tables["polls"].append(
        {
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "value": offset,
            "consumer": consumer,
            "session": 1,
            "prev_offset": None,
            "leader_epoch": epoch,
            "isolation": "read_uncommitted",
            "polled_ns": ns(at_s),
        }
    )


def below(record: Path) -> Story:
    """The ISR is the leader alone from 10 s to 20 s; HW 100 at 11 s and at 19 s."""
    story = Story(record)
    story.state(1)
    story.state(10, isr=[1])
    story.state(20, isr=[1, 2, 3])
    story.hw(11, 1, 0, 100)
    story.hw(19, 1, 0, 100)
    return story


def facts(story: Story, suffix: str) -> dict[str, int]:
    """The facts of one kind that are not 0, without their suffix."""
    found = story.judge().coverage
    return {name.replace(f"-{suffix}", ""): count for name, count in found.items() if suffix in name and count}


def test_sends_count_by_their_acks_and_only_those_sent_and_acked_below_min_isr(tmp_path: Path) -> None:
    story = below(tmp_path)
    send(story, 5, 1, done_s=12)
    send(story, 12, 1, done_s=12.1)
    send(story, 12, 0, done_s=12.1)
    send(story, 13, -1, done_s=21)
    send(story, 14, -1, done_s=15, status="failed")
    send(story, 15, -1, done_s=None, status="unknown")
    send(story, 19, 1, done_s=20.5)
    assert facts(story, BELOW) == {
        "acked-acks-1": 1,
        "acked-acks-0": 1,
        "not-acked-acks-all": 3,
        "not-acked-acks-1": 1,
        "hw-observed": 1,
        "hw-frozen": 1,
    }


def test_an_acks_all_that_was_acked_below_min_isr_is_counted(tmp_path: Path) -> None:
    story = below(tmp_path)
    send(story, 13, -1, done_s=14)
    assert story.judge().coverage["acked-below-min-isr-acks-all"] == 1


def test_a_hw_that_stands_still_counts_only_while_the_log_grew(tmp_path: Path) -> None:
    story = below(tmp_path)
    send(story, 5, 1, done_s=6)
    assert story.judge().coverage["hw-frozen-below-min-isr"] == 0


def test_a_hw_that_moves_and_rows_read_above_it(tmp_path: Path) -> None:
    story = below(tmp_path)
    story.tables["watermarks"][-1]["high_watermark"] = 130
    for at_s, offset in ((9, 120), (12, 99), (12, 100), (18, 120), (21, 140)):
        poll(story, at_s, offset)
    assert facts(story, BELOW) == {"hw-observed": 1, "hw-advanced": 1, "read": 2}


def test_tables_that_are_missing_leave_their_facts_out(tmp_path: Path) -> None:
    story = below(tmp_path)
    found = story.judge(missing=("watermarks", "sends")).coverage
    assert not [name for name in found if name.startswith(("acked", "not-acked", "hw", "read"))]


@pytest.mark.parametrize(("missing", "fact"), [("sends", "hw-frozen-below-min-isr"), ("polls", "read-below-min-isr")])
def test_a_fact_of_two_tables_needs_both(tmp_path: Path, missing: str, fact: str) -> None:
    story = below(tmp_path)
    send(story, 12, 1, done_s=12.1)
    poll(story, 12, 120)
    found = story.judge(missing=(missing,)).coverage
    assert fact not in found
    assert found["hw-observed-below-min-isr"] == 1


def test_sends_and_polls_are_read_as_often_for_many_stretches_as_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = below(tmp_path)
    opened: list[str] = []
    dataset = ds.dataset
    monkeypatch.setattr(
        ds, "dataset", lambda files, **how: (opened.append(Path(files[0]).stem), dataset(files, **how))[1]
    )

    def reads_opened() -> list[int]:
        opened.clear()
        assert facts(story, BELOW) == {"acked-acks-1": count, "hw-observed": count, "hw-frozen": count, "read": count}
        return [opened.count(table) for table in ("sends", "polls")]

    send(story, 12, 1, done_s=12.1)
    poll(story, 12, 120)
    count = 1
    once = reads_opened()
    for at_s in (30, 50):
        story.state(at_s, isr=[1])
        story.state(at_s + 9, isr=[1, 2, 3])
        story.hw(at_s + 1, 1, 0, 100)
        story.hw(at_s + 8, 1, 0, 100)
        send(story, at_s + 2, 1, done_s=at_s + 2.1)
        send(story, at_s + 9.5, 1, done_s=at_s + 9.6)
        poll(story, at_s + 2, 120)
    count = 3
    assert reads_opened() == once


@pytest.mark.parametrize(("hw", "expected"), [(100, "hw-frozen"), (101, "hw-advanced")])
def test_while_a_join_is_held_the_hw_is_looked_at_from_the_last_cut_on(tmp_path: Path, hw: int, expected: str) -> None:
    story = Story(tmp_path)
    story.state(1, isr=[1])
    story.steps = [
        StepEntry(
            index=0,
            step="hold-request",
            nodes=(1,),
            parameters={"api": "AlterPartition"},
            fired_ns=ns(2),
            effect_ns=ns(3),
            healed_ns=ns(9),
            proof={"probe": "ok"},
        ),
        StepEntry(index=1, step="partition", nodes=(1, 2), fired_ns=ns(4), effect_ns=ns(4), proof={"probe": "ok"}),
    ]
    story.hw(3.5, 1, 0, 50)
    story.hw(5, 1, 0, 100)
    story.hw(8, 1, 0, hw)
    story.hw(9.5, 1, 0, 200)
    send(story, 6, 1, done_s=6.1)
    send(story, 6, -1, done_s=9.2)
    assert facts(story, HELD) == {"acked-acks-1": 1, "not-acked-acks-all": 1, "hw-observed": 1, expected: 1}


def test_a_consumer_read_past_an_election_if_it_was_there_before_and_got_what_was_written_after(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(10, leader=2, leader_epoch=1)
    for consumer, first_s, epoch in ((1, 5, 1), (2, 5, 0), (3, 11, 1), (4, 5, None), (999, 5, 1)):
        poll(story, first_s, 1, consumer=consumer)
        poll(story, 20, 2, consumer=consumer, epoch=epoch)
    assert story.judge().coverage["consumers-read-past-an-election"] == 1


def test_without_polls_nothing_is_said_of_consumers(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    assert "consumers-read-past-an-election" not in story.judge(missing=("polls",)).coverage
