"""Records that a leader lacked, and that a later leader may have had again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from judge_records import ELR_ON, Story, by_name, cause_and_leader, ns, value_of

NO_LOSS = "no-committed-loss-unless-allowed"


def returned(record: Path, *, acks: int | None = 1) -> Story:
    """100 records of leader 1 that leader 2 lacked, and leader 3 may have had; then a recovery elects leader 2.

    A consumer read them after they were back. They were acked with `acks` (None: not at all).
    """
    story = Story(record, kafka="4.3.1", features=ELR_ON)
    story.state(1)
    story.hw(6, 1, 0, 100)
    story.state(10, leader=2, isr=[2, 3])
    story.state(15, leader=3, isr=[3])
    story.state(20, isr=[1, 3])
    story.hw(24, 3, 2, 200)
    recover(story, [(0, 0, 99), (1, 100, 299)])
    read(story, at_s=25)
    if acks is None:
        story.vanish_range(100, 199, epoch=0, read_s=25)
    else:
        story.lose(100, 199, acked_s=5, acks=acks, epoch=0)
    return story


def recover(story: Story, log: Sequence[tuple[int, int, int]]) -> None:
    """A recovery elects leader 2, whose log is `log` with further records."""
    story.state(30, leader=-1, isr=[])
    elected = story.state(40, leader=2, isr=[2], leader_recovery_state=1)
    story.state(45, isr=[1, 2, 3], leader_recovery_state=0)
    epoch = story.tables["partitions"][-1]["leader_epoch"]
    for broker in (1, 2, 3):
        story.log(broker, *log, (epoch, log[-1][2] + 1, log[-1][2] + 10))
    story.step(35, "recover", record={"metadata_offset": elected})
    assert story.steps is not None
    parameters = {"partition": "t-0", "strategy": "balanced"}
    story.steps[-1] = msgspec.structs.replace(story.steps[-1], parameters=parameters)


def read(story: Story, *, at_s: float) -> None:
    """A consumer returns the records of leader 1."""
    story.tables["polls"] += [
        {"topic": "t", "partition": 0, "offset": offset, "value": value_of(offset, 0), "consumer": 1}
        | {"session": 0, "prev_offset": offset - 1, "leader_epoch": 0, "isolation": "read_uncommitted"}
        | {"polled_ns": ns(at_s)}
        for offset in range(100, 200)
    ]


def test_the_election_that_lost_records_after_their_return_is_guilty(tmp_path: Path) -> None:
    verdict = returned(tmp_path).judge()
    assert by_name(verdict)[NO_LOSS] == "holds"
    assert cause_and_leader(verdict) == ("unclean-recovery", 2, 4)


def test_it_also_lost_records_that_were_not_acked_and_only_read(tmp_path: Path) -> None:
    verdict = returned(tmp_path, acks=None).judge()
    assert by_name(verdict)[NO_LOSS] == "holds"
    assert "t-0, 100 records that were read and are gone, unclean-recovery" in " | ".join(verdict.why)
