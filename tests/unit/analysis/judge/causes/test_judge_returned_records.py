"""Records that a leader lacked while they were not committed, and that a later leader had again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pytest
from judge_records import ELR_ON, Story, by_name, cause_and_leader, ns

from ebbtide.record.verdict import Verdict

NO_LOSS = "no-committed-loss-unless-allowed"


def returned(
    record: Path,
    *,
    reads_s: Sequence[float] = (25,),
    old_hw: int = 100,
    is_acked: bool = True,
    second_isr: Sequence[Sequence[int]] = ([2, 3],),
    third: int = 3,
    epoch: int = 0,
) -> Story:
    """100 records with acks=1 of leader 1 that leader 2 lacked, and leader 3 had; then a recovery elects leader 2.

    A consumer read them at `reads_s`; leader 1 had served the HW `old_hw`. They were acked, or their producer sent them
    once more to leader 2, whose ISR was `second_isr`, one after the other. Leader 1 led under `epoch`. `third`
    leads in place of leader 3.
    """
    story = Story(record, kafka="4.3.1", features=ELR_ON)
    story.state(1, leader_epoch=epoch)
    story.hw(4, 1, epoch, old_hw)
    story.state(10, leader=2, isr=list(second_isr[0]))
    for isr in second_isr[1:]:
        story.state(12, isr=list(isr))
    story.state(15, leader=third, isr=[third])
    story.state(20, isr=[1, third])
    story.hw(24, third, epoch + 2, 200)
    story.state(30, leader=-1, isr=[])
    elected = story.state(40, leader=2, isr=[2], leader_recovery_state=1)
    story.state(45, isr=[1, 2, 3], leader_recovery_state=0)
    for broker in (1, 2, 3):
        story.log(broker, (epoch, 0, 99), (epoch + 1, 100, 299), (epoch + 4, 300, 310))
    story.step(35, "recover", record={"metadata_offset": elected})
    assert story.steps is not None
    parameters = {"partition": "t-0", "strategy": "balanced"}
    story.steps[-1] = msgspec.structs.replace(story.steps[-1], parameters=parameters)
    for session, read_s in enumerate(reads_s):
        read(story, range(100, 200), session=session, at_s=read_s, epoch=epoch)
    if is_acked:
        story.lose(100, 199, acked_s=5, acks=1)
    else:
        story.vanish_range(100, 199, epoch=epoch, read_s=min(reads_s))
    return story


def read(story: Story, offsets: Iterable[int], *, session: int, at_s: float, epoch: int = 0) -> None:
    """A consumer returns records of leader 1."""
    story.tables["polls"] += [
        {"topic": "t", "partition": 0, "offset": offset, "value": offset, "consumer": 1, "session": session}
        | {"prev_offset": offset - 1, "leader_epoch": epoch, "isolation": "read_uncommitted", "polled_ns": ns(at_s)}
        for offset in offsets
    ]


def check_first_election_is_guilty(verdict: Verdict, *, is_acked: bool) -> None:
    assert by_name(verdict)[NO_LOSS] == "violated"
    if is_acked:
        assert cause_and_leader(verdict) == ("unexplained", 2, 1)
    else:
        assert "100 read records of t-0 vanished against the protocol: broker 2 led from the ISR" in verdict.why[0]


def check_guilt_is_unknown(verdict: Verdict) -> None:
    assert (verdict.outcome, by_name(verdict)[NO_LOSS]) == ("inconclusive", "unknown")
    assert verdict.losses == []
    why = (
        "broker 2 lacked the record under epoch 1, perhaps before it was committed: broker 3, elected under epoch 2, "
        "may have had it again, and then a later election lost it (unclean-recovery: broker 2 was elected"
    )
    assert why in " | ".join(verdict.why)


def add_consumer(story: Story, *, limit: str = "") -> None:
    """The scenario has the consumer, and with `limit` its rate is limited."""
    story.predict('loss = { committed = "some", cause = "unclean-recovery" }')
    with (story.record / "scenario.toml").open("a") as file:
        file.write(f'[[consumers]]\nid = 1\ntopics = ["t"]\n{limit}\n')


both_kinds = pytest.mark.parametrize("is_acked", [True, False], ids=["acked with acks=1", "sent twice"])


@both_kinds
@pytest.mark.parametrize("reads_s", [(25,), (42,)], ids=["in time", "after they were lost"])
def test_the_election_that_lost_records_after_their_return_is_guilty(
    tmp_path: Path, is_acked: bool, reads_s: Sequence[float]
) -> None:
    story = returned(tmp_path, reads_s=reads_s, is_acked=is_acked)
    add_consumer(story)
    verdict = story.judge()
    assert by_name(verdict)[NO_LOSS] == "holds"
    if is_acked:
        assert cause_and_leader(verdict) == ("unclean-recovery", 2, 4)
        assert verdict.outcome == "as-predicted"
    else:
        assert "t-0, 100 vanished records, unclean-recovery: broker 2 was elected" in " | ".join(verdict.why)


@both_kinds
def test_a_consumer_with_a_rate_limit_does_not_show_their_return(tmp_path: Path, is_acked: bool) -> None:
    story = returned(tmp_path, is_acked=is_acked)
    add_consumer(story, limit="max_rate_per_s = 10")
    check_guilt_is_unknown(story.judge())


@both_kinds
def test_nor_does_a_consumer_if_only_the_leader_that_lost_them_served_their_offsets(
    tmp_path: Path, is_acked: bool
) -> None:
    story = returned(tmp_path, is_acked=is_acked)
    story.tables["watermarks"].pop()
    story.hw(46, 2, 4, 311)
    add_consumer(story)
    check_guilt_is_unknown(story.judge())


@both_kinds
@pytest.mark.parametrize("reads_s", [(25,), (42,)], ids=["in time", "after they were lost"])
def test_it_is_unknown_which_election_lost_records_that_may_have_come_back(
    tmp_path: Path, is_acked: bool, reads_s: Sequence[float]
) -> None:
    check_guilt_is_unknown(returned(tmp_path, reads_s=reads_s, is_acked=is_acked).judge())


def test_records_that_nobody_read_did_not_come_back(tmp_path: Path) -> None:
    check_first_election_is_guilty(returned(tmp_path, reads_s=()).judge(), is_acked=True)


@both_kinds
@pytest.mark.parametrize(
    ("reads_s", "old_hw"),
    [((9,), 100), ((12,), 100), ((25, 9), 100), ((25,), 200)],
    ids=["read before", "read before another leader was elected", "read before and after", "below a HW of then"],
)
def test_the_first_election_is_guilty_of_records_that_were_committed_before_it(
    tmp_path: Path, is_acked: bool, reads_s: Sequence[float], old_hw: int
) -> None:
    story = returned(tmp_path, reads_s=reads_s, old_hw=old_hw, is_acked=is_acked)
    add_consumer(story)
    check_first_election_is_guilty(story.judge(), is_acked=is_acked)


@both_kinds
def test_a_later_record_that_was_read_before_shows_that_they_were_committed(tmp_path: Path, is_acked: bool) -> None:
    story = returned(tmp_path, is_acked=is_acked)
    read(story, range(199, 210), session=7, at_s=9)
    check_first_election_is_guilty(story.judge(), is_acked=is_acked)


@both_kinds
@pytest.mark.parametrize(("at_s", "is_shown"), [(9.9, True), (24, False)], ids=["before the election", "after it"])
def test_a_hw_without_a_leader_epoch_shows_it_by_its_time(
    tmp_path: Path, is_acked: bool, at_s: float, is_shown: bool
) -> None:
    story = returned(tmp_path, is_acked=is_acked)
    story.hw(at_s, 1, 0, 200)
    story.tables["watermarks"][-1] |= {"leader_epoch": None, "source": "metrics"}
    verdict = story.judge()
    if is_shown:
        check_first_election_is_guilty(verdict, is_acked=is_acked)
    else:
        check_guilt_is_unknown(verdict)


@both_kinds
def test_a_hw_of_an_older_leader_was_that_of_other_records(tmp_path: Path, is_acked: bool) -> None:
    story = returned(tmp_path, is_acked=is_acked, epoch=1)
    story.hw(0.5, 3, 0, 200)
    assert by_name(story.judge())[NO_LOSS] == "unknown"


@pytest.mark.parametrize(("acked_s", "is_shown"), [(5, True), (12, False)], ids=["before", "by the next leader"])
def test_an_ack_with_acks_all_shows_it(tmp_path: Path, acked_s: float, is_shown: bool) -> None:
    story = returned(tmp_path, is_acked=False)
    story.tables["sends"] += [
        {"topic": "t", "partition": 0, "value": offset, "producer": 1, "sequence": offset, "acks": -1}
        | {"status": "acked", "offset": offset, "sent_ns": ns(4), "done_ns": ns(acked_s)}
        for offset in range(100, 200)
    ]
    verdict = story.judge()
    if is_shown:
        check_first_election_is_guilty(verdict, is_acked=False)
    else:
        check_guilt_is_unknown(verdict)


@both_kinds
def test_a_broker_that_joined_the_isr_of_the_first_leader_cannot_bring_them_back(
    tmp_path: Path, is_acked: bool
) -> None:
    story = returned(tmp_path, is_acked=is_acked, second_isr=([2], [2, 3]))
    check_first_election_is_guilty(story.judge(), is_acked=is_acked)


@both_kinds
def test_nor_can_a_member_of_its_isr_once_its_hw_has_passed_them(tmp_path: Path, is_acked: bool) -> None:
    story = returned(tmp_path, is_acked=is_acked)
    story.hw(14, 2, 1, 200)
    check_first_election_is_guilty(story.judge(), is_acked=is_acked)


@both_kinds
def test_nor_can_a_leader_that_is_known_to_lack_them(tmp_path: Path, is_acked: bool) -> None:
    story = returned(tmp_path, is_acked=is_acked)
    story.hw(16, 3, 2, 90)
    story.hw(17, 3, 2, 90)
    check_first_election_is_guilty(story.judge(), is_acked=is_acked)


@both_kinds
def test_nor_can_the_first_leader_itself(tmp_path: Path, is_acked: bool) -> None:
    story = returned(tmp_path, is_acked=is_acked, third=2)
    check_first_election_is_guilty(story.judge(), is_acked=is_acked)
