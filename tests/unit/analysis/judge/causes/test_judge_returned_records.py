"""Records that a leader lacked while they were not committed, and that a later leader had again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from judge_records import ELR_ON, Story, by_name, cause_and_leader, ns

NO_LOSS = "no-committed-loss-unless-allowed"


def returned(record: Path, *, reads_s: Sequence[float] = (25,), old_hw: int = 100, is_acked: bool = True) -> Story:
    """100 records with acks=1 of leader 1 that leader 2 lacked, and leader 3 had; a recovery elects leader 2 again.

    A consumer read them at `reads_s`; leader 1 had served the HW `old_hw`. They were acked, or their producer sent them
    once more to leader 2.
    """
    story = Story(record, kafka="4.3.1", features=ELR_ON)
    story.state(1)
    story.hw(4, 1, 0, old_hw)
    story.state(10, leader=2, isr=[2, 3])
    story.state(15, leader=3, isr=[3])
    story.state(20, isr=[1, 3])
    story.hw(24, 3, 2, 200)
    story.state(30, leader=-1, isr=[])
    elected = story.state(40, leader=2, isr=[2], leader_recovery_state=1)
    story.state(45, isr=[1, 2, 3], leader_recovery_state=0)
    for broker in (1, 2, 3):
        story.log(broker, (0, 0, 99), (1, 100, 299))
    story.step(35, "recover", record={"metadata_offset": elected})
    assert story.steps is not None
    parameters = {"partition": "t-0", "strategy": "balanced"}
    story.steps[-1] = msgspec.structs.replace(story.steps[-1], parameters=parameters)
    for session, read_s in enumerate(reads_s):
        for offset in range(100, 200):
            story.tables["polls"].append(
                {
                    "topic": "t",
                    "partition": 0,
                    "offset": offset,
                    "value": offset,
                    "consumer": 1,
                    "session": session,
                    "prev_offset": offset - 1,
                    "leader_epoch": 0,
                    "isolation": "read_uncommitted",
                    "polled_ns": ns(read_s),
                }
            )
    if is_acked:
        story.lose(100, 199, acked_s=5, acks=1)
    else:
        story.vanish_range(100, 199, epoch=0, read_s=min(reads_s))
    return story


def test_the_election_that_lost_them_after_their_return_is_guilty(tmp_path: Path) -> None:
    assert cause_and_leader(returned(tmp_path).judge()) == ("unclean-recovery", 2, 4)


@pytest.mark.parametrize(
    ("reads_s", "old_hw"),
    [((), 100), ((9,), 100), ((12,), 100), ((25, 9), 100), ((25,), 200)],
    ids=[
        "never read",
        "read before the election",
        "read before a later one",
        "read before and after",
        "committed before",
    ],
)
def test_without_the_evidence_of_a_return_the_first_election_stays_guilty(
    tmp_path: Path, reads_s: Sequence[float], old_hw: int
) -> None:
    assert cause_and_leader(returned(tmp_path, reads_s=reads_s, old_hw=old_hw).judge()) == ("unexplained", 2, 1)


def test_records_that_were_sent_twice_vanished_by_the_election_after_their_return(tmp_path: Path) -> None:
    verdict = returned(tmp_path, is_acked=False).judge()
    assert by_name(verdict)[NO_LOSS] != "violated"
    assert "t-0, 100 vanished records, unclean-recovery: broker 2 was elected" in " | ".join(verdict.why)


@pytest.mark.parametrize(("reads_s", "old_hw"), [((25, 9), 100), ((25,), 200)], ids=["read before", "committed before"])
def test_read_records_that_were_committed_before_a_leader_lacked_them_vanished_against_the_protocol(
    tmp_path: Path, reads_s: Sequence[float], old_hw: int
) -> None:
    verdict = returned(tmp_path, reads_s=reads_s, old_hw=old_hw, is_acked=False).judge()
    assert by_name(verdict)[NO_LOSS] == "violated"
    assert "100 read records of t-0 vanished against the protocol: broker 2 led from the ISR" in verdict.why[0]
