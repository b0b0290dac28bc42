"""By which way of the protocol a leader was elected, and whether the controller was allowed to elect it."""

from __future__ import annotations

from typing import Any

import causes_rows as row
import pytest
from causes_by_hand import down, elect, event, partition, rules, state

from analysis.causes.partition import EvidentPartition
from analysis.causes.table import Kind

LAST = rules(elr=True, min_isr=2), rules(elr=False)
CLOSING = (event(1, 0.5, 1, "registered"), event(51, 9, 1, "registered"))
"""Broker 1 registers, and again in the batch of state 5."""


def known(last_known: tuple[int, ...] = (1,), isr: tuple[int, ...] = (), **fields: Any) -> EvidentPartition:
    """Return a partition that elects broker 1 when it registers."""
    fields = {"rules": LAST[:1], "broker_events": CLOSING, **fields}
    before = state(4, 7, -1, 1, isr, last_known_elr=last_known, partition_epoch=1)
    return partition(row.ALONE, before, state(5, 9, 1, 2, (1,), partition_epoch=2), **fields)


def moved(replicas: tuple[int, ...], leader: int, adding: tuple[int, ...]) -> EvidentPartition:
    """Return a partition whose reassignment ends with these replicas and this leader; broker 3 was the ISR."""
    before = state(0, 1, 3, 0, (3,), replicas=(1, 3), adding=adding, removing=(3,))
    return partition(before, state(1, 5, leader, 1, (leader,), replicas=replicas))


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (known(), "last-known-leader"),
        # A broker that registers uncleanly leaves the ISR by that, if the ELR is on.
        (known(isr=(1,)), "last-known-leader"),
        (known(isr=(1,), broker_events=CLOSING[:1]), "clean"),
        (known(isr=(1,), rules=LAST[1:]), "clean"),
        (known(isr=(1, 2)), "unclean"),
        (known(last_known=(2,)), "unclean"),
        # What an ELR of before had left says nothing once it is off.
        (known(rules=LAST[1:]), "unclean"),
        (known(rules=(rules(elr=None),)), "last-known-leader"),
        # A follower joins the ISR by the record that ends the reassignment.
        (moved((1,), 1, adding=(1,)), "clean"),
        # The reassignment was cancelled, so what it was adding is no replica.
        (moved((1,), 1, adding=(2,)), "unclean"),
        (row.recovered(), "recovery"),
        (row.recovered(requests=()), "unclean"),
        (row.unclean(requests=(elect(7, 9, elected_at=20),)), "unclean"),
    ],
)
def test_the_way_of_an_election(found: EvidentPartition, kind: Kind) -> None:
    assert found.leaders.kind[found.elections.all[-1]] == kind


def test_nobody_is_asked_by_which_way_the_first_leader_came() -> None:
    assert set(row.unclean().leaders.kind) == {2}


@pytest.mark.parametrize(
    ("fields", "may_have_registered"),
    [({}, False), ({"broker_events": None}, True), ({"broker_events": None, "rules": LAST[1:]}, False)],
)
def test_a_winner_may_have_registered_just_then_where_the_events_are_missing(
    fields: dict[str, Any], *, may_have_registered: bool
) -> None:
    assert known(isr=(1,), **fields).leaders.may_have_registered[2] is may_have_registered


@pytest.mark.parametrize(
    ("fields", "is_allowed"),
    [
        ({}, False),
        ({"steps_known": False}, None),
        ({"log_whole": False}, None),
        ({"rules": (rules(unclean=True),), "log_whole": False}, True),
        ({"rules": (rules(unclean=None),)}, None),
        # The election was at 8 s.
        ({"requests": (elect(7, 9),)}, True),
        ({"requests": (elect(8, 8),)}, True),
        ({"requests": (elect(7),)}, True),
        ({"requests": (elect(7, 9, is_recovery=True),)}, None),
        ({"requests": (elect(6, 7.9),)}, None),
        ({"requests": (elect(8.1, 9),)}, None),
        # Its proof names the election, whatever the clocks say.
        ({"requests": (elect(8.1, 9, elected_at=20),)}, True),
        ({"requests": (elect(6, 7.7),)}, False),
        ({"requests": (elect(8.3, 9),)}, False),
        ({"requests": (elect(6, 7.9), elect(7, 9))}, True),
        # A recovery that proved its election asked for no other one.
        ({"requests": (elect(7, is_recovery=True, elected_at=90),)}, False),
        ({"requests": (elect(7, is_recovery=True, elected_at=90), elect(7, 9))}, True),
    ],
)
def test_an_unclean_election_is_allowed_by_a_config_or_by_a_request(
    fields: dict[str, Any], *, is_allowed: bool | None
) -> None:
    found = row.unclean(**{"rules": (rules(unclean=False),), **fields})
    assert found.leaders.is_unclean_allowed(2) is is_allowed


def test_a_live_member_of_the_isr_is_passed_over_even_if_nobody_knows_of_the_elr() -> None:
    states = (row.ALL, state(1, 5, -1, 1, (3,)), state(2, 8, 2, 2, (2,)))
    events = (event(5, 0.5, 3, "unfenced"),)
    found = partition(*states, rules=(rules(elr=None),), broker_events=events)
    assert found.leaders.is_nobody_passed_over(2) is False


@pytest.mark.parametrize(("elr", "is_nobody"), [(True, False), (False, True), (None, None)])
def test_a_live_member_of_the_elr_is_passed_over_only_if_the_elr_is_on(
    elr: bool | None,
    is_nobody: bool | None,
) -> None:
    states = (row.ALL, state(1, 5, -1, 1, (), elr=(3,)), state(2, 8, 2, 2, (2,)))
    events = (event(5, 0.5, 3, "unfenced"),)
    found = partition(*states, rules=(rules(elr=elr),), broker_events=events)
    assert found.leaders.is_nobody_passed_over(2) is is_nobody


def test_an_election_by_name_with_records_missing_before_it_is_not_sure_to_be_by_name() -> None:
    assert row.led_by_name().leaders.by_name_before(4, 0) == 2
    assert row.led_by_name().leaders.by_name_before(4, 2) is None
    # Nobody knows what the missing record did to the ISR.
    assert row.led_by_name(missing=True).leaders.by_name_before(4, 0) is None


@pytest.mark.parametrize(("downs", "led"), [((), None), ((down(2, 7),), False), ((down(2, 9),), None)])
def test_a_broker_that_had_died_before_its_election_did_not_lead(downs: tuple[Any, ...], led: object) -> None:
    events = (event(1, 0.5, 2, "registered"),)
    assert row.led_by_name(downs=downs, broker_events=events).leaders.led[2] is led


def test_a_broker_may_have_led_by_an_election_whose_record_is_missing() -> None:
    # That election may have been before its death.
    events = (event(1, 0.5, 2, "registered"),)
    assert row.led_by_name(downs=(down(2, 7),), broker_events=events, missing=True).leaders.led[2] is None


def test_a_winner_from_the_elr_enters_the_isr_by_no_request() -> None:
    states = (row.ALL, state(1, 5, 2, 1, (2,), elr=(3,)), state(2, 8, 3, 2, (3,), elr=(2,)))
    assert partition(*states, rules=(rules(elr=True),)).leaders.joins(2) == frozenset()


@pytest.mark.parametrize(("partition_epoch", "by_name"), [(3, 2), (4, None)])
def test_an_election_by_name_counts_no_more_behind_a_gap_that_may_hide_another_one(
    partition_epoch: int, by_name: int | None
) -> None:
    states = (
        state(0, 1, 1, 0, (1,)),
        state(1, 4, -1, 1, (1,)),
        state(2, 8, 2, 2, (2,)),
        state(3, 8.5, -1, 4, (2,), partition_epoch=partition_epoch),
        state(4, 12, 2, 5, (2,), partition_epoch=partition_epoch + 1),
    )
    assert partition(*states).leaders.by_name_before(4, 0) == by_name
