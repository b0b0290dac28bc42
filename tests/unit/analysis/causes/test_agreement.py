"""What the histories of a record must agree on, and what an answer says where they do not, or where none fits."""

from __future__ import annotations

import causes_rows as row
import pytest
from causes_by_hand import OFFSET, OTHER, ask, disk, down, ns, partition, rows, rules, state, watermarks

from analysis.causes.answer import HIDDEN, CauseAnswer, LossHistory
from analysis.causes.evidence import SLACK_NS
from analysis.causes.guilt import Guilt
from analysis.causes.partition import EvidentPartition
from analysis.causes.table import NEEDS, Permits
from analysis.causes.words import sentence, tell

WHICH = "not known: the leader epoch of the record, or what the leaders in question had at their election"
MISSING = f"not known: {NEEDS['gap']}"
NOT_ALLOWED, UNKNOWN = (rules(unclean=False),), (rules(unclean=None),)
MAY_HAVE_LED, DISK_TAKEN = (down(1, 3),), (disk(2, 9, 6),)


def answered(*histories: LossHistory) -> CauseAnswer:
    return CauseAnswer(None, None, "", histories=histories)


@pytest.mark.parametrize(
    ("holders", "holder"), [((0,), 0), ((3, 3), 3), ((0, 3), None), ((HIDDEN,), None), ((), None), ((HIDDEN, 0), None)]
)
def test_the_last_leader_with_the_record_is_named_where_the_histories_name_one(
    holders: tuple[int, ...], holder: int | None
) -> None:
    assert answered(*(LossHistory(0, one, Guilt()) for one in holders)).holder == holder


@pytest.mark.parametrize(
    ("permitted", "is_allowed"),
    [
        ((Permits(frozenset({"unclean-election"})),), True),
        ((Permits(frozenset({"unclean-election"})), Permits(frozenset({"beyond-tolerance"}))), True),
        ((Permits(frozenset({"unclean-election"})), Permits()), False),
        ((Permits(frozenset({"unexplained"})),), False),
        ((Permits(frozenset({"unclean-election"}), frozenset({"steps"})),), False),
        ((), False),
    ],
)
def test_a_loss_is_allowed_if_each_history_is(permitted: tuple[Permits, ...], *, is_allowed: bool) -> None:
    assert answered(*(LossHistory(0, 0, Guilt(), one) for one in permitted)).is_allowed is is_allowed


@pytest.mark.parametrize(
    ("found", "cause", "guilty"),
    [
        # By the first election it never led, and the table does not allow the second.
        (row.led_by_name(), "unclean-election", 2),
        (row.led_by_name(rules=UNKNOWN), None, 2),
        # An election that was not allowed excuses no later one.
        (row.led_by_name(rules=NOT_ALLOWED), "unexplained", 4),
        # Nor does the disk that it had lost before that one.
        (row.led_by_name(rules=NOT_ALLOWED, disks=(disk(2, 7, 6),)), "unexplained", 4),
        (row.led_by_name(rules=NOT_ALLOWED, disks=(disk(2, 7, 6), disk(3, 9, 6))), "unexplained", 4),
        # The table allows the second, and no history blames the first.
        (row.led_by_name(disks=(disk(2, 7, 6),)), "last-replica-standing", 4),
        # It may have led by the first, without the record.
        (row.led_by_name((1, 2), disks=(disk(2, 7, 6),), downs=MAY_HAVE_LED), "unclean-election", 2),
    ],
)
def test_an_election_by_name_is_blamed_for_a_later_one_of_its_winner(
    found: EvidentPartition, cause: str | None, guilty: int
) -> None:
    answer = ask(found)
    assert (answer.cause, answer.guilty) == (cause, guilty)


@pytest.mark.parametrize(
    ("known", "cause", "guilty"),
    [
        ((rules(elr=True, min_isr=3),), "unexplained", 5),
        # With the ELR off when the broker registered again, the table allows the second election, too.
        ((rules(elr=True, min_isr=2), rules(61, 9.3, elr=False, min_isr=2)), "last-known-leader", 5),
    ],
)
def test_an_election_of_the_last_known_leader_is_blamed_by_the_tolerance(
    known: tuple[object, ...], cause: str, guilty: int
) -> None:
    answer = ask(row.led_as_last_known(*known))
    assert (answer.cause, answer.guilty) == (cause, guilty)


def test_a_broken_promise_and_an_allowed_election_behind_it_both_count() -> None:
    found = ask(row.led_as_last_known(rules(elr=True, min_isr=3), rules(61, 9.3, elr=False, min_isr=3)))
    assert {one.guilty for one in found.histories} == {5, 7}
    assert (found.cause, found.guilty) == (None, None)
    assert found.why == f"last-replica-standing and unexplained both fit; {WHICH}"


@pytest.mark.parametrize(
    ("done_s", "cause", "guilty"), [(2.1, "unexplained", 1), (14, "unclean-election", 3)], ids=["committed", "not yet"]
)
def test_a_member_that_lacked_a_committed_record_stays_guilty_though_the_record_came_back(
    done_s: float, cause: str, guilty: int
) -> None:
    told = row.brought_back(
        *(state(0, 1, 1, 0, (1, 2)), state(1, 5, 2, 1, (2,))),
        at=2,
        disks=(disk(2, 4, 6),),
        downs=(down(1, 3, 12),),
        watermarks=watermarks((2, 1, 3, 9, 9.1)),
    )
    found = ask(told, done_s=done_s)
    assert (found.cause, found.guilty) == (cause, guilty)


def test_a_member_by_an_election_by_name_is_not_guilty_once_the_record_came_back() -> None:
    found = row.led_by_name(downs=(down(1, 3, 12.5), down(2, 7, 9)))
    told = row.brought_back(
        *found.evidence.states,
        at=5,
        downs=found.evidence.cluster.downs,
        broker_events=found.evidence.cluster.broker_events,
        watermarks=watermarks((2, 4, 3, 12.2, 12.3), (1, 5, 3, 13.5, 13.6)),
    )
    assert {one.guilty for one in ask(told).histories if one.holder == 5} == {6}


def test_an_unclean_election_that_was_not_allowed_counts_beside_what_is_allowed() -> None:
    found = ask(told := row.led_by_name(rules=NOT_ALLOWED, downs=MAY_HAVE_LED, disks=DISK_TAKEN))
    assert (found.cause, found.guilty, found.is_allowed) == (None, None, False)
    roads = (
        "broker 2 was elected from outside the ISR and the ELR and never had the record",
        "broker 2 was elected from the ISR and had lost the record with its disk",
    )
    assert found.why == f"last-replica-standing and unexplained both fit; {WHICH}"
    assert sentence(told, found) == f"{found.why} (possible: {'; or '.join(roads)})"


def test_two_causes_that_both_fit_are_allowed_in_any_case() -> None:
    found = ask(told := row.led_by_name(downs=MAY_HAVE_LED, disks=DISK_TAKEN))
    assert (found.cause, found.guilty, found.is_allowed, found.holder) == (None, None, True, None)
    assert found.why == f"last-replica-standing and unclean-election both fit; {WHICH}"
    assert tell(told, found)[-1] == (
        "broker 1 appended it under leader epoch 0; the last leader with it was broker 2 (leader epoch 2); "
        "broker 2 was elected from the ISR and had lost the record with its disk (leader epoch 4); "
        "last-replica-standing: it was the only member of the ISR, and there was no ELR"
    )


def test_two_causes_of_one_election_leave_only_the_cause_open() -> None:
    found = ask(row.stale_join_then_disk())
    assert (found.cause, found.guilty) == (None, 5)
    assert found.why == "last-replica-standing and stale-isr-join both fit"


def test_what_is_not_known_of_one_history_leaves_the_cause_open() -> None:
    found = ask(told := row.led_by_name(rules=UNKNOWN, downs=MAY_HAVE_LED, disks=DISK_TAKEN))
    assert (found.cause, found.guilty, found.is_allowed) == (None, None, False)
    assert found.why == f"not known: {NEEDS['unclean election allowed']}"
    road = "broker 2 was elected from the ISR and had lost the record with its disk"
    assert sentence(told, found) == f"{found.why} (possible: {road})"


KEPT = partition(row.ALL)
LOG = {1: rows((OTHER, 4, 0))}


@pytest.mark.parametrize(
    ("found", "acks_all", "cause", "why"),
    [
        (KEPT, True, "unexplained", "no history that fits allows it"),
        (KEPT, False, None, f"not known: {NEEDS['log']}"),
        (partition(row.ALL, replicas=LOG), False, "unexplained", "no history that fits allows it"),
        (partition(row.ALL, steps_known=False, replicas=LOG), True, None, f"not known: {NEEDS['steps']}"),
        (partition(row.ALL, state(2, 5, 1, 0, (1,)), replicas=LOG), True, None, MISSING),
        (partition(row.ALL, state(2, 5, 1, 0, (1,)), replicas=LOG), False, "uncommitted-at-failover", MISSING),
    ],
)
def test_where_every_leader_had_the_record_something_is_missing(
    found: EvidentPartition, *, acks_all: bool, cause: str | None, why: str
) -> None:
    answer = ask(found, acks_all=acks_all)
    assert (answer.cause, answer.guilty, answer.may_be_kept, answer.histories) == (cause, None, True, ())
    assert sentence(found, answer) == answer.why == why


def test_what_a_measurement_shows_is_forbidden_even_if_no_steps_are_known() -> None:
    # Broker 2 was in the ISR and never restarted, and its first record stands at the offset.
    found = partition(row.ALL, state(1, 5, 2, 1, (2, 3)), steps_known=False, final=rows((OTHER, OFFSET, 1)))
    assert (ask(found).cause, ask(found).guilty) == ("unexplained", 1)


def test_without_a_leader_that_may_have_appended_it_there_is_no_cause() -> None:
    found = ask(row.uncommitted(), writers=())
    assert (found.cause, found.why) == (None, "no leader is known that may have appended the record")


SENT_AT_ELECTION_S = 1.1
"""So close to the writer's election that a clock may have put it before."""


@pytest.mark.parametrize(
    ("partition_epochs", "asked", "is_known"),
    [
        ((0, 1, 2), {}, True),
        ((0, 2, 3), {}, False),
        # Behind the guilty election, nothing that is missing excuses it.
        ((0, 1, 3), {}, True),
        # Before the writer's election, neither, unless the record may be from before it.
        ((1, 2, 3), {}, True),
        ((1, 2, 3), {"sent_ns": ns(SENT_AT_ELECTION_S)}, False),
        ((1, 2, 3), {"sent_ns": row.ALL.at_ns + SLACK_NS}, True),
        # Where the writer is not known, it may be one that is missing.
        ((1, 2, 3), {"writers": (0, 1)}, False),
        ((0, 1, 2), {"sent_ns": ns(SENT_AT_ELECTION_S), "writers": (0, 1)}, True),
    ],
)
def test_a_missing_record_of_the_log_may_excuse_the_election_behind_it(
    partition_epochs: tuple[int, ...], asked: dict[str, object], *, is_known: bool
) -> None:
    found = ask(row.lacking_member(*partition_epochs), **asked)
    assert (found.cause, found.guilty) == (("unexplained", 1) if is_known else (None, None))
    assert found.why == ("no history that fits allows it" if is_known else MISSING)


@pytest.mark.parametrize(
    ("is_epoch_known", "done_s", "is_hidden"), [(True, 5.5, False), (False, 5.5, True), (False, 0.5, False)]
)
def test_a_leader_whose_election_is_missing_may_have_appended_what_nobody_read(
    *, is_epoch_known: bool, done_s: float, is_hidden: bool
) -> None:
    found = ask(told := partition(row.ALL, state(2, 5, 1, 2, (1,))), is_epoch_known=is_epoch_known, done_s=done_s)
    hidden = f"a leader whose election is missing may have appended it; {MISSING}"
    assert (hidden in tell(told, found)) is is_hidden
    assert f"broker 1 appended it under leader epoch 0; an election that is missing; {MISSING}" in tell(told, found)
