"""Records that a leader lacked, and that a later leader may have had again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from judge_records import ELR_ON, Story, by_name, cause_and_leader, ns, value_of

NO_LOSS = "no-committed-loss-unless-allowed"


def returned(
    record: Path,
    *,
    reads_s: Sequence[float] = (25,),
    old_hw: int = 100,
    acks: int | None = 1,
    second_isr: Sequence[Sequence[int]] = ([2, 3],),
    third: int = 3,
) -> Story:
    """100 records of leader 1 that leader 2 lacked, and leader 3 may have had; then a recovery elects leader 2.

    A consumer read them at `reads_s`; leader 1 had served the HW `old_hw`. They were acked with `acks` (None: not at
    all). The ISR of leader 2 was `second_isr`, one after the other. `third` leads in place of leader 3.
    """
    story = Story(record, kafka="4.3.1", features=ELR_ON)
    story.state(1)
    story.hw(6, 1, 0, old_hw)
    story.state(10, leader=2, isr=list(second_isr[0]))
    for isr in second_isr[1:]:
        story.state(12, isr=list(isr))
    story.state(15, leader=third, isr=[third])
    story.state(20, isr=[1, third])
    story.hw(24, third, 2, 200)
    recover(story, [(0, 0, 99), (1, 100, 299)])
    for session, read_s in enumerate(reads_s):
        read(story, session=session, at_s=read_s)
    if acks is None:
        story.vanish_range(100, 199, epoch=0, read_s=min(reads_s))
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


def read(story: Story, *, session: int, at_s: float) -> None:
    """A consumer returns the records of leader 1."""
    story.tables["polls"] += [
        {"topic": "t", "partition": 0, "offset": offset, "value": value_of(offset, 0), "consumer": 1}
        | {"session": session, "prev_offset": offset - 1, "leader_epoch": 0, "isolation": "read_uncommitted"}
        | {"polled_ns": ns(at_s)}
        for offset in range(100, 200)
    ]


def check_first_election_is_guilty(story: Story, *, is_acked: bool) -> None:
    verdict = story.judge()
    assert by_name(verdict)[NO_LOSS] == "violated"
    if is_acked:
        assert cause_and_leader(verdict) == ("unexplained", 2, 1)
    else:
        assert verdict.why[0].startswith("100 read records of t-0 vanished against the protocol")
        assert "(election of broker 2, leader epoch 1)" in verdict.why[0]


def test_the_election_that_lost_records_after_their_return_is_guilty(tmp_path: Path) -> None:
    verdict = returned(tmp_path).judge()
    assert by_name(verdict)[NO_LOSS] == "holds"
    assert cause_and_leader(verdict) == ("unclean-recovery", 2, 4)


def test_it_also_lost_records_that_were_not_acked_and_only_read(tmp_path: Path) -> None:
    verdict = returned(tmp_path, acks=None).judge()
    assert by_name(verdict)[NO_LOSS] == "holds"
    assert "t-0, 100 records that were read and are gone, unclean-recovery" in " | ".join(verdict.why)


@pytest.mark.parametrize("acks", [1, None], ids=["acked with acks=1", "only read"])
@pytest.mark.parametrize(
    ("reads_s", "old_hw"),
    [((9,), 100), ((25, 9), 100), ((25,), 200)],
    ids=["read before", "read before and after", "below a HW of then"],
)
def test_the_first_election_is_guilty_of_records_that_were_committed_before_it(
    tmp_path: Path, acks: int | None, reads_s: Sequence[float], old_hw: int
) -> None:
    story = returned(tmp_path, reads_s=reads_s, old_hw=old_hw, acks=acks)
    check_first_election_is_guilty(story, is_acked=acks is not None)


def test_so_it_is_of_records_that_were_acked_with_acks_all(tmp_path: Path) -> None:
    check_first_election_is_guilty(returned(tmp_path, acks=-1), is_acked=True)


def known_to_lack_them(record: Path) -> Story:
    story = returned(record)
    for at_s in (16, 17):
        story.hw(at_s, 3, 2, 90)
    return story


@pytest.mark.parametrize(
    "make",
    [
        lambda record: returned(record, second_isr=([2], [2, 3])),
        known_to_lack_them,
        lambda record: returned(record, third=2),
    ],
    ids=["joined the ISR of the leader that lacked them", "known to lack them", "the leader that lacked them"],
)
def test_a_leader_that_cannot_have_them_does_not_bring_them_back(tmp_path: Path, make: Callable[[Path], Story]) -> None:
    check_first_election_is_guilty(make(tmp_path), is_acked=True)
