"""Where two clocks may differ by seconds, or the metadata log lacks records, the order of events is not sure."""

from __future__ import annotations

from typing import Any

import causes_by_hand as hand
import numpy as np
import pytest

from analysis.causes.elections import Elections
from analysis.causes.evidence import (
    NEVER,
    ClusterEvidence,
    DiskLoss,
    Down,
    PartitionEvidence,
    Silence,
)
from analysis.causes.liveness import Liveness
from analysis.causes.moments import moments_of
from ebbtide.record.node_times import Span
from ebbtide.record.rows import BrokerEvent, PartitionState

SECOND = 1_000_000_000


def state(place: int, at_s: float, leader: int, isr: tuple[int, ...], *, epoch: int) -> PartitionState:
    """State number `place`, at metadata offset 10 times that; broker 1 and 2 are the replicas."""
    return hand.state(place, at_s, leader, epoch, isr, replicas=(1, 2))


@pytest.mark.parametrize(("slack_s", "died_s"), [(0.2, 6), (3, NEVER / SECOND)])
def test_a_process_that_may_have_ended_before_the_registration_is_not_the_one_that_led(
    slack_s: float, died_s: float
) -> None:
    registered = hand.event(5, 5, 1, "registered")
    cluster = ClusterEvidence(broker_events=(registered,), downs=(hand.down(1, 6),), slack_ns=int(slack_s * SECOND))
    assert Liveness(cluster).died_by(1, state(1, 5.5, 1, (1,), epoch=1)) == died_s * SECOND


@pytest.mark.parametrize(("slack_s", "died_s"), [(0.2, 6), (3, 12)])
def test_without_a_registration_the_next_process_may_have_led_if_it_had_the_time_to_register(
    slack_s: float, died_s: float
) -> None:
    downs = (hand.down(1, 6, 7), hand.down(1, 12))
    cluster = ClusterEvidence(broker_events=None, downs=downs, slack_ns=int(slack_s * SECOND))
    assert Liveness(cluster).died_by(1, state(1, 5.5, 1, (1,), epoch=1)) == died_s * SECOND


@pytest.mark.parametrize(
    ("slack_s", "order"), [(0.2, ["state", "state", "disk"]), (3, ["state", "disk", "state", "disk"])]
)
def test_a_disk_loss_may_come_before_or_after_its_brokers_join_if_a_clock_was_set(
    slack_s: float, order: list[str]
) -> None:
    cluster = ClusterEvidence(slack_ns=int(slack_s * SECOND))
    gone = Span(first_ns=int(4.9 * SECOND), last_ns=int(4.95 * SECOND))
    states = (state(0, 1, 2, (2,), epoch=0), state(1, 5, 2, (1, 2), epoch=0))
    history = PartitionEvidence(
        topic="t", partition=0, cluster=cluster, states=states, disks=(DiskLoss(broker=1, within=gone),)
    )
    found = moments_of(history, Elections(states, torn=False), Liveness(cluster))
    assert [one.what for one in found] == order


def test_a_disk_loss_about_the_time_of_a_state_in_which_its_broker_stays_may_come_before_or_after_it() -> None:
    gone = Span(first_ns=int(4.9 * SECOND), last_ns=int(4.95 * SECOND))
    states = (state(0, 1, 2, (1, 2), epoch=0), state(1, 5, 2, (1, 2), epoch=0))
    history = PartitionEvidence(topic="t", partition=0, states=states, disks=(DiskLoss(broker=1, within=gone),))
    found = moments_of(history, Elections(states, torn=False), Liveness(ClusterEvidence()))
    assert [one.what for one in found] == ["state", "disk", "state", "disk"]


@pytest.mark.parametrize(
    ("fields", "may_lack"),
    [({}, False), ({"broker_events": None}, True), ({"log_whole": False}, True), ({"log_torn": True}, True)],
)
def test_the_event_of_a_batch_may_be_missing_where_records_of_the_log_are(
    fields: dict[str, Any], *, may_lack: bool
) -> None:
    cluster = ClusterEvidence(**{"broker_events": (), **fields})
    assert Liveness(cluster).may_lack_event(state(1, 5, 2, (1, 2), epoch=0)) is may_lack


@pytest.mark.parametrize(("done_s", "is_hidden"), [(4, False), (6, True)])
def test_a_leader_behind_the_torn_end_of_the_log_may_have_appended_what_was_acked_later(
    *, done_s: int, is_hidden: bool
) -> None:
    states = (state(0, 1, 2, (2,), epoch=0), state(1, 5, 1, (1, 2), epoch=1))
    elections = Elections(states, torn=True)
    assert elections.hides_one_before(done_s * SECOND) is is_hidden
    assert not Elections(states, torn=False).hides_one_before(done_s * SECOND)


def test_a_state_behind_a_gap_may_have_begun_as_early_as_the_state_before() -> None:
    states = (state(1, 1, 2, (2,), epoch=0), state(2, 5, 1, (1, 2), epoch=1), state(4, 9, 1, (1, 2), epoch=2))
    assert hand.partition(*states, slack_ns=SECOND).leaders.began_ns == [0, 4 * SECOND, 4 * SECOND]


def registered(offset: int, at_s: float, incarnation: str) -> BrokerEvent:
    """Return a registration of broker 1."""
    return hand.event(offset, at_s, 1, "registered", incarnation=incarnation)


ELECTED_ONCE_MORE = (state(0, 1, 1, (1,), epoch=0), state(1, 9, -1, (), epoch=1), state(2, 12, 1, (1,), epoch=2))
RESTARTED = hand.down(1, 10, 11)


@pytest.mark.parametrize(
    ("events", "order"),
    [
        ((registered(5, 0.5, "a"), registered(15, 11.5, "b")), ["state", "disk", "state", "disk", "state"]),
        # The same process registered twice, so the second process has not registered.
        ((registered(5, 0.5, "a"), registered(15, 11.5, "a")), ["state", "disk", "state", "disk", "state", "disk"]),
    ],
)
def test_registrations_say_where_a_disk_was_lost_if_every_process_has_one(
    events: tuple[BrokerEvent, ...], order: list[str]
) -> None:
    cluster = ClusterEvidence(broker_events=events, downs=(RESTARTED,), slack_ns=5 * SECOND)
    disk = DiskLoss(broker=1, within=RESTARTED.ended)
    evidence = PartitionEvidence(
        topic="t", partition=0, cluster=cluster, states=ELECTED_ONCE_MORE, disks=(disk,), rules=()
    )
    found = moments_of(evidence, Elections(evidence.states, torn=False), Liveness(cluster))
    assert [one.what for one in found] == order


def test_a_leader_in_the_session_of_a_process_began_no_earlier_than_the_process() -> None:
    events = (registered(5, 0.5, "a"), registered(15, 11.5, "b"))
    liveness = Liveness(ClusterEvidence(broker_events=events, downs=(RESTARTED,), slack_ns=5 * SECOND))
    first, _, last = ELECTED_ONCE_MORE
    assert liveness.earliest_ns(last) == 11 * SECOND
    assert liveness.earliest_ns(first) == -4 * SECOND
    assert liveness.died_by(1, last) == NEVER


@pytest.mark.parametrize(("until_s", "writers"), [(5, (0, 1)), (12, (1,))])
def test_a_deposed_leader_acks_with_acks_all_only_what_every_member_of_its_isr_may_have(
    until_s: float, writers: tuple[int, ...]
) -> None:
    states = (state(0, 1, 1, (1, 2), epoch=0), state(1, 6, 2, (2,), epoch=1))
    cut = hand.cut(1, 2, 2, until_s)
    found = hand.partition(*states, silences=(cut,), sends=hand.sends((7, 3, -1, 8, 9)))
    assert tuple(np.flatnonzero(found.may_have_written[0])) == writers


def test_a_process_that_was_started_fetches_nothing_before_it_registers() -> None:
    liveness = Liveness(
        ClusterEvidence(broker_events=(registered(5, 0.5, "a"), registered(15, 14, "b")), downs=(RESTARTED,))
    )
    assert liveness.is_silent(1, 2, 11 * SECOND, 13 * SECOND)
    assert not liveness.is_silent(1, 2, 11 * SECOND, 14 * SECOND)


def test_two_brokers_may_not_know_of_an_election_only_if_both_are_cut_off_from_the_same_third_end() -> None:
    both = Silence(from_ns=SECOND, until_ns=9 * SECOND, links=frozenset({(1, 100), (2, 100)}))
    alone = Silence(from_ns=SECOND, until_ns=9 * SECOND, links=frozenset({(1, 3), (2, 100), (1, 2)}))
    assert Liveness(ClusterEvidence(silences=(both,))).may_not_know(1, 2, 5 * SECOND)
    assert not Liveness(ClusterEvidence(silences=(both,))).may_not_know(1, 2, 12 * SECOND)
    assert not Liveness(ClusterEvidence(silences=(alone,))).may_not_know(1, 2, 5 * SECOND)


def test_registrations_order_nothing_where_steps_overlap() -> None:
    again = Down(broker=1, ended=Span(first_ns=10 * SECOND, last_ns=12 * SECOND), started_ns=13 * SECOND)
    events = (registered(5, 0.5, "a"), registered(15, 11.5, "b"), registered(25, 13.5, "c"))
    liveness = Liveness(ClusterEvidence(broker_events=events, downs=(RESTARTED, again)))
    assert liveness.life_within(1, Span(first_ns=12 * SECOND, last_ns=13 * SECOND)) is None


@pytest.mark.parametrize(
    ("fields", "is_known"),
    [
        ({}, True),
        ({"steps_known": False}, False),
        ({"log_whole": False}, False),
        ({"log_torn": True}, False),
        # Nobody knows of which process such a registration is.
        ({"broker_events": (hand.event(5, 0.5, 1, "registered"),)}, False),
    ],
)
def test_registrations_order_what_happened_only_where_none_may_be_missing(
    fields: dict[str, Any], *, is_known: bool
) -> None:
    ended = hand.down(1, 10)
    cluster = ClusterEvidence(**{"broker_events": (registered(5, 0.5, "a"),), "downs": (ended,), **fields})
    assert (Liveness(cluster).life_within(1, ended.ended) is not None) is is_known


def test_a_process_that_was_not_started_again_is_the_last_one() -> None:
    cluster = ClusterEvidence(broker_events=(registered(5, 0.5, "a"),), downs=(hand.down(1, 10),), slack_ns=SECOND)
    liveness, (first, _, last) = Liveness(cluster), ELECTED_ONCE_MORE
    assert liveness.died_by(1, last) == 10 * SECOND
    assert liveness.earliest_ns(last) == 11 * SECOND
    # Its session began behind this state.
    assert liveness.died_by(1, first) == NEVER


@pytest.mark.parametrize(("is_torn", "order"), [(False, ["state", "state"]), (True, ["state", "restart", "state"])])
def test_the_last_batch_of_a_torn_log_may_be_that_of_a_restart_which_no_step_tells(
    *, is_torn: bool, order: list[str]
) -> None:
    cluster = ClusterEvidence(broker_events=(hand.event(1, 0.5, 1, "registered"),), steps_known=False, log_torn=is_torn)
    states = (state(0, 1, 2, (2,), epoch=0), state(1, 5, 1, (1,), epoch=1))
    history = PartitionEvidence(topic="t", partition=0, cluster=cluster, states=states)
    found = moments_of(history, Elections(states, torn=is_torn), Liveness(cluster))
    assert [one.what for one in found if (one.what, one.which) != ("restart", 2)] == order
