"""The coverage facts that guide the random schedules."""

from __future__ import annotations

import gzip
from pathlib import Path

from judge_records import ELR_ON, Story

from ebbtide.record.manifest import Topology


def facts(story: Story) -> dict[str, int]:
    return story.judge().coverage


def test_an_elr_of_two_is_counted_when_it_comes_about(tmp_path: Path) -> None:
    story = Story(tmp_path, kafka="4.1.0", features=ELR_ON)
    story.state(1)
    story.state(5, isr=[1], elr=[2])
    assert facts(story)["elr-of-two"] == 0
    story.state(6, leader=-1, isr=[], elr=[1, 2])
    story.state(7, leader=2, isr=[2], elr=[1])
    assert facts(story)["elr-of-two"] == 1


def test_only_a_fault_that_falls_on_a_recovering_partition_counts_as_one(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.step(2, "kill", 1)
    story.state(5, leader=-1)
    story.state(6, leader=2, isr=[2], leader_recovery_state=1)
    story.step(7, "kill", 2)
    story.step(7, "start", 1)
    story.state(9, isr=[1, 2], leader_recovery_state=0)
    story.step(10, "kill", 3)
    assert facts(story)["faults-while-recovering"] == 1


def test_rejected_alter_partitions_are_counted_in_the_logs_of_the_controllers(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    assert "alter-partitions-rejected" not in facts(story)
    line = b"INFO [QuorumController id=100] Rejecting AlterPartition request from node 1 for t-0 because ...\n"
    (tmp_path / "logs").mkdir(exist_ok=True)
    (tmp_path / "logs" / "broker-1.log.gz").write_bytes(gzip.compress(line))
    (tmp_path / "logs" / "controller-100.log.gz").write_bytes(gzip.compress(line + b"INFO else\n" + line))
    assert facts(story)["alter-partitions-rejected"] == 2
    story.change(topology=Topology(controllers=(100, 101), brokers=(1, 2, 3)))
    assert "alter-partitions-rejected" not in facts(story)
    (tmp_path / "logs" / "controller-101.log").write_bytes(line)
    assert facts(story)["alter-partitions-rejected"] == 3
