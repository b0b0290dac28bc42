"""A story in which a broker enters the ISR without its log."""

from __future__ import annotations

from pathlib import Path

from judge_records import Story


def stale_join(record: Path, features: dict[str, int], kafka: str = "3.4.1", *, in_new_epoch: bool = False) -> Story:
    """Return the story of KAFKA-14139: broker 2 joins by an AlterPartition from before its disk was replaced.

    `in_new_epoch`: the leader was elected again in between, so that the controller refuses that request.
    """
    story = Story(record, kafka=kafka, features=features, min_isr=1)
    story.broker(0, 1)
    story.broker(0, 2)
    story.state(1, replicas=[1, 2], isr=[1, 2])
    story.state(8, isr=[1])
    story.step(10, "wipe-disk", 2)
    story.broker(12, 2)
    if in_new_epoch:
        story.step(12.5, "kill", 1)
        story.state(12.8, leader=-1)
        story.broker(13, 1)
        story.state(13.1, leader=1)
    story.state(14, isr=[1, 2])
    story.step(15, "kill", 1)
    story.state(18, leader=2, isr=[2])
    story.log(2, (story.tables["partitions"][-1]["leader_epoch"], 0, 9))
    story.lose(0, 99, acked_s=5)
    return story
