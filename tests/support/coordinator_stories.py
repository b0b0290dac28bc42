"""Builds small run records of the coordinators of a group, for the judge's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from judge_records import ELR_OFF, Story, ns

from analysis.reconcile.model import CommitItem, LostCommits
from ebbtide.record.manifest import TopicSetup
from ebbtide.record.verdict import AnomalyCount

OFFSETS = "__consumer_offsets"


class CoordinatorStory(Story):
    """A story of the coordinators of the group g, the leaders of __consumer_offsets-0."""

    def __init__(self, record: Path, **setup: Any) -> None:
        super().__init__(record, **setup)
        self.change(topics={OFFSETS: TopicSetup(partitions=1, replication_factor=3, min_isr=2)})
        self.tables["commits"].append(
            {
                "group": "g",
                "topic": "t",
                "partition": 0,
                "offsets_partition": 0,
                "status": "acked",
                "asked_ns": ns(5),
            }
        )
        self.acked_commits = 1

    def coordinate(self, at_s: float, **fields: Any) -> None:
        self.state(at_s, **{"topic": OFFSETS, **fields})

    def mark(self, at_s: float, broker: int, epoch: int, hw: int) -> None:
        self.hw(at_s, broker, epoch, hw)
        self.tables["watermarks"][-1]["topic"] = OFFSETS

    def coordinator_loses_power(self, at_s: float, broker: int, *, end: int) -> None:
        logs = {f"{OFFSETS}-0": {"leo_before": 100, "leo_after": end}}
        self.step(at_s, "power-loss", broker, lost_bytes=4096, logs=logs)

    def lose_commit(
        self, *, acked_s: float, asked_s: float, epoch: int, broker: int = 1, kind: str = "commit-lost"
    ) -> None:
        item = CommitItem(
            commit=7,
            offset=50,
            sent_ns=ns(acked_s - 0.1),
            at_ns=ns(acked_s),
            broker=broker,
            leader_epoch=epoch,
            offsets_partition=0,
            asked_ns=ns(asked_s),
        )
        self.commits.append(LostCommits(kind=kind, group="g", topic="t", partition=0, count=1, first=item, last=item))
        self.anomalies.append(AnomalyCount(kind=kind, topic="t", partition=0, count=1))


def healthy_coordinator(record: Path) -> CoordinatorStory:
    """Broker 1 of three coordinates from 1 s on, and its HW has grown to 30 at 6 s."""
    story = CoordinatorStory(record, features=ELR_OFF)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.coordinate(1)
    story.mark(4, 1, 0, 20)
    story.mark(6, 1, 0, 30)
    return story


def last_coordinator_standing(record: Path, *, end: int = 0) -> CoordinatorStory:
    """The coordinator is the last of the ISR, loses power, and leads again with a log that ends at `end`."""
    story = healthy_coordinator(record)
    story.step(9, "partition", 0, 1, 2, 3, 100, cuts=["1>2", "2>1", "1>3", "3>1"])
    story.coordinate(11, isr=[1])
    story.coordinator_loses_power(12, 1, end=end)
    story.coordinate(15, leader=-1)
    story.broker(20, 1)
    story.coordinate(21, leader=1)
    story.coordinate(30, isr=[1, 2, 3])
    story.mark(22, 1, 2, end)
    story.mark(23, 1, 2, end)
    return story
