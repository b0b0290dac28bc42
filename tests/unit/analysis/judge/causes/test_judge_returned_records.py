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
    story.hw(6, 1, epoch, old_hw)
    story.state(10, leader=2, isr=list(second_isr[0]))
    for isr in second_isr[1:]:
        story.state(12, isr=list(isr))
    story.state(15, leader=third, isr=[third])
    story.state(20, isr=[1, third])
    story.hw(24, third, epoch + 2, 200)
    recover(story, [(epoch, 0, 99), (epoch + 1, 100, 299)])
    for session, read_s in enumerate(reads_s):
        read(story, range(100, 200), session=session, at_s=read_s, epoch=epoch)
    if is_acked:
        story.lose(100, 199, acked_s=5, acks=1)
    else:
        story.vanish_range(100, 199, epoch=epoch, read_s=min(reads_s))
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


def check_guilt(verdict: Verdict, *, is_acked: bool, is_known: bool) -> None:
    if is_known:
        check_first_election_is_guilty(verdict, is_acked=is_acked)
    else:
        check_guilt_is_unknown(verdict)


def add_step(story: Story, step: str, cut: str | None) -> None:
    """A step at 8 s, while leader 1 leads; `cut`: the sides between which it cut the connections."""
    story.step(8, step)
    assert story.steps is not None
    story.steps[-1] = msgspec.structs.replace(story.steps[-1], whom=cut)


def add_consumer(story: Story, *, limit: str = "") -> None:
    """The scenario has the consumer, and with `limit` its rate is limited."""
    story.predict('loss = { committed = "some", cause = "unclean-recovery" }')
    with (story.record / "scenario.toml").open("a") as file:
        file.write(f'[[consumers]]\nid = 1\ntopics = ["t"]\n{limit}\n')


both_kinds = pytest.mark.parametrize("is_acked", [True, False], ids=["acked with acks=1", "sent twice"])


@both_kinds
def test_the_election_that_lost_records_after_their_return_is_guilty(tmp_path: Path, is_acked: bool) -> None:
    story = returned(tmp_path, is_acked=is_acked)
    add_consumer(story)
    verdict = story.judge()
    assert by_name(verdict)[NO_LOSS] == "holds"
    if is_acked:
        assert cause_and_leader(verdict) == ("unclean-recovery", 2, 4)
        assert verdict.outcome == "as-predicted"
    else:
        assert "t-0, 100 vanished records, unclean-recovery: broker 2 was elected" in " | ".join(verdict.why)


@both_kinds
@pytest.mark.parametrize("limit", ["max_rate_per_s = 10", 'group = "g"'], ids=["a rate limit", "a group"])
def test_a_consumer_that_may_keep_records_does_not_show_their_return(
    tmp_path: Path, is_acked: bool, limit: str
) -> None:
    story = returned(tmp_path, is_acked=is_acked)
    add_consumer(story, limit=limit)
    check_guilt_is_unknown(story.judge())


@both_kinds
@pytest.mark.parametrize(
    ("step", "cut"),
    [("partition", "broker-1 | clients"), ("pause", None), ("slow-disk", None), ("hold-request", None)],
)
def test_nor_does_a_consumer_whose_answers_a_step_may_have_delayed(
    tmp_path: Path, is_acked: bool, step: str, cut: str | None
) -> None:
    story = returned(tmp_path, is_acked=is_acked)
    add_step(story, step, cut)
    add_consumer(story)
    check_guilt_is_unknown(story.judge())


@both_kinds
def test_a_cut_between_brokers_delays_no_answer(tmp_path: Path, is_acked: bool) -> None:
    story = returned(tmp_path, is_acked=is_acked)
    add_step(story, "partition", "broker-2 | broker-1, broker-3")
    add_consumer(story)
    assert by_name(story.judge())[NO_LOSS] == "holds"


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
def test_nor_does_a_consumer_if_no_hw_shows_that_they_were_not_committed_before(tmp_path: Path, is_acked: bool) -> None:
    story = returned(tmp_path, is_acked=is_acked)
    del story.tables["watermarks"][0]
    add_consumer(story)
    check_guilt_is_unknown(story.judge())


def test_nor_does_a_consumer_if_the_hw_was_served_before_the_ack(tmp_path: Path) -> None:
    story = returned(tmp_path)
    story.tables["watermarks"][0]["at_ns"] = ns(4)
    add_consumer(story)
    check_guilt_is_unknown(story.judge())


@both_kinds
@pytest.mark.parametrize("read_s", [16, 43], ids=["soon after the first leader", "after they were lost"])
def test_nor_does_a_consumer_that_may_have_fetched_them_from_another_leader(
    tmp_path: Path, is_acked: bool, read_s: float
) -> None:
    story = returned(tmp_path, reads_s=(read_s,), is_acked=is_acked)
    add_consumer(story)
    check_guilt_is_unknown(story.judge())


@both_kinds
@pytest.mark.parametrize("reads_s", [(25,), (42,)], ids=["in time", "after they were lost"])
def test_it_is_unknown_which_election_lost_records_that_may_have_come_back(
    tmp_path: Path, is_acked: bool, reads_s: Sequence[float]
) -> None:
    check_guilt_is_unknown(returned(tmp_path, reads_s=reads_s, is_acked=is_acked).judge())


@pytest.mark.parametrize("has_epochs", [True, False], ids=["not read", "read without leader epochs"])
def test_so_it_is_of_acked_records_that_no_consumer_showed(tmp_path: Path, has_epochs: bool) -> None:
    story = returned(tmp_path, reads_s=() if has_epochs else (25,))
    for row in story.tables["polls"]:
        row["leader_epoch"] = None
    add_consumer(story)
    check_guilt_is_unknown(story.judge())


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
    check_guilt(story.judge(), is_acked=is_acked, is_known=is_shown)


@both_kinds
@pytest.mark.parametrize("hw_epoch", [0, None])
def test_a_hw_of_an_older_leader_was_that_of_other_records(
    tmp_path: Path, is_acked: bool, hw_epoch: int | None
) -> None:
    story = returned(tmp_path, is_acked=is_acked, epoch=1)
    story.hw(0.5, 3, 0, 200)
    story.tables["watermarks"][-1] |= {"leader_epoch": hw_epoch}
    assert by_name(story.judge())[NO_LOSS] == "unknown"


def test_reads_of_several_records_at_an_offset_show_no_return(tmp_path: Path) -> None:
    story = returned(tmp_path, epoch=1)
    read(story, range(100, 200), session=7, at_s=0.5, epoch=0)
    add_consumer(story)
    assert by_name(story.judge())[NO_LOSS] == "unknown"


@pytest.mark.parametrize(
    ("sent_s", "acked_s", "is_shown"),
    [(4, 5, True), (4, 12, False), (0.4, 0.5, False)],
    ids=["before", "by the next leader", "by an older leader"],
)
def test_an_ack_with_acks_all_shows_it(tmp_path: Path, sent_s: float, acked_s: float, is_shown: bool) -> None:
    story = returned(tmp_path, is_acked=False)
    story.tables["sends"] += [
        {"topic": "t", "partition": 0, "value": offset, "producer": 1, "sequence": offset, "acks": -1}
        | {"status": "acked", "offset": offset, "sent_ns": ns(sent_s), "done_ns": ns(acked_s)}
        for offset in range(100, 200)
    ]
    check_guilt(story.judge(), is_acked=False, is_known=is_shown)


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


def test_a_late_ack_hides_no_read_of_the_records_before(tmp_path: Path) -> None:
    story = returned(tmp_path, reads_s=(9,))
    story.lost = [msgspec.structs.replace(story.lost[0], first_done_ns=ns(10.05), last_done_ns=ns(10.05))]
    read(story, range(100, 150), session=1, at_s=16, epoch=1)
    add_consumer(story)
    check_first_election_is_guilty(story.judge(), is_acked=True)


def test_a_member_of_the_isr_of_a_further_leader_without_them_cannot_bring_them_back(tmp_path: Path) -> None:
    story = Story(tmp_path, kafka="4.3.1", features=ELR_ON)
    story.state(1)
    story.hw(6, 1, 0, 100)
    story.state(10, leader=2, isr=[2, 3])
    story.state(13, leader=3, isr=[2, 3])
    for at_s in (13.5, 13.7):
        story.hw(at_s, 3, 2, 100)
    story.state(14, isr=[1, 2, 3])
    story.state(15, leader=1, isr=[1, 2, 3])
    story.hw(16, 1, 3, 250)
    read(story, range(100, 200), session=0, at_s=18)
    recover(story, [(0, 0, 99), (1, 100, 299)])
    story.lose(100, 199, acked_s=5, acks=1)
    add_consumer(story)
    check_first_election_is_guilty(story.judge(), is_acked=True)


def uncleanly_returned(record: Path) -> Story:
    """Leader 2 lacked 100 records, and leader 3 had followed it; unclean elections made it and then leader 1 lead."""
    story = Story(record, kafka="4.3.1", features=ELR_ON)
    story.config(0, "topic:t", "unclean.leader.election.enable", "true")
    story.state(1)
    story.hw(6, 1, 0, 100)
    story.state(10, leader=2, isr=[2])
    for at_s in (12, 13):
        story.hw(at_s, 2, 1, 100)
    story.state(15, leader=3, isr=[3], leader_recovery_state=1)
    story.hw(16, 3, 2, 210)
    story.state(18, leader=-1, isr=[], leader_recovery_state=0)
    story.state(20, leader=1, isr=[1], leader_recovery_state=1)
    story.state(21, isr=[1, 2, 3], leader_recovery_state=0)
    story.hw(24, 1, 4, 220)
    read(story, range(100, 200), session=0, at_s=25)
    return story


def test_an_election_after_the_return_is_guilty_whatever_rule_explains_one_before(tmp_path: Path) -> None:
    story = uncleanly_returned(tmp_path)
    story.state(40, leader=2, isr=[2])
    for broker in (1, 2, 3):
        story.log(broker, (0, 0, 99), (5, 100, 310))
    story.lose(100, 199, acked_s=5, acks=1)
    add_consumer(story)
    assert cause_and_leader(story.judge()) == ("unexplained", 2, 5)


def test_a_return_counts_from_the_leader_that_had_the_records_and_not_from_the_first_that_might(tmp_path: Path) -> None:
    story = uncleanly_returned(tmp_path)
    story.hw(14, 2, 1, 150)
    recover(story, [(0, 0, 99), (1, 100, 299)])
    story.lose(100, 199, acked_s=5, acks=1)
    add_consumer(story)
    assert cause_and_leader(story.judge()) == ("unclean-recovery", 2, 6)
