"""Builds small run records of four brokers whose metadata log is whole, for the judge's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from judge_records import ELR_OFF, Story, whole_log

from ebbtide.record.manifest import Topology


def four_brokers(
    record: Path, *, unclean: bool, kafka: str = "3.9.1", features: dict[str, int] = ELR_OFF, **more: Any
) -> Story:
    """Brokers 1 to 4 are registered, and the topic says whether it is elected uncleanly."""
    story = Story(record, kafka=kafka, features=features, **more)
    story.change(topology=Topology(controllers=(100,), brokers=(1, 2, 3, 4)))
    for broker in (1, 2, 3, 4):
        story.broker(0, broker)
    story.config(0.5, "topic:t", "unclean.leader.election.enable", str(unclean).lower())
    whole_log(story)
    story.predict("")
    return story
