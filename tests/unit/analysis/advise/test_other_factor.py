"""An event says the numbers of brokers of the topics that it is about, before and after another RF."""

from __future__ import annotations

import pytest
from made_snapshots import NEWEST, brokers, cluster, topic

from analysis.advise.advice import Advice, advise
from analysis.advise.advice_json import advice_output
from analysis.advise.assumption import parse_assumption
from analysis.advise.page import render_advice


@pytest.fixture(scope="module")
def raised() -> Advice:
    five = brokers(5, NEWEST["3.9"])
    snapshot = cluster("3.9", topic("orders", 3, 2), brokers=five)
    return advise(snapshot, assumed=parse_assumption("replication.factor=5"))


def test_no_event_of_today_takes_down_more_brokers_than_there_are_replicas(raised: Advice) -> None:
    (group,) = raised.groups
    assert max(line.today.event.count for line in group.lines) == 3
    assert not any("5" in line.today.event.what for line in group.lines)


def test_a_line_says_both_numbers_where_they_differ(raised: Advice) -> None:
    shown = {line.key: line.what for line in raised.groups[0].lines}
    assert shown["power-5"] == "all 3 brokers lose power together; then: all 5 brokers lose power together"
    assert shown["power-3"] == "all 3 brokers lose power together; then: 3 brokers lose power together"
    assert shown["kills-worst"] == "any number of broker processes are killed; then: a broker process is killed"
    assert shown["rolling-restart"] == "a clean rolling restart"
    assert f"{shown['power-5']} *</td>" in render_advice(raised)
    assert {one.key: one.what for one in advice_output(raised).groups[0].lines} == shown


def test_a_change_to_more_replicas_names_their_number() -> None:
    two = advise(cluster("4.3", topic("logs", 2, 1)))
    saves = next(one.saves for one in two.groups[0].remedies if one.assume.startswith("replication.factor=3"))
    assert "2 brokers lose power together, in sync" in saves
    assert not any(one.startswith("all 2") for one in saves)


def test_an_event_that_needs_a_broker_without_a_replica_has_no_answer_where_there_is_none() -> None:
    snapshot = cluster("4.3", topic("orders", 2, 1), brokers=brokers(3, NEWEST["4.3"]))
    advice = advise(snapshot, assumed=parse_assumption("replication.factor=3,min.insync.replicas=2"))
    moves = next(line for line in advice.groups[0].lines if line.key == "moves-worst")
    assert moves.today.acks_all.says != "unknown"
    assert moves.after is not None
    assert moves.after.acks_all.says == "unknown"
    assert "needs a broker without a replica" in moves.after.acks_all.within
