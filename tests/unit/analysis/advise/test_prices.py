"""Each change has a price, and says it in one line."""

from __future__ import annotations

import pytest

from analysis.advise.assumption import parse_assumption
from analysis.advise.groups import NEVER, GroupSettings, TopicGroup
from analysis.advise.prices import release_prices, topic_prices
from analysis.advise.release import assumed_release

ELR = "eligible.leader.replicas.version"


def group(**settings: object) -> TopicGroup:
    whole = {"rf": 3, "min_isr": 1, "unclean": False, "flush_messages": NEVER, "flush_ms": NEVER, "cleanup": "delete"}
    return TopicGroup(
        settings=GroupSettings(**{**whole, **settings}),  # type: ignore[arg-type]
        topics=("t",),
        partitions=1,
        rack_replicas=1,
        brokers=5,
    )


@pytest.mark.parametrize(
    ("assumed", "today", "says"),
    [
        ("min.insync.replicas=2", {}, "acks=all is refused while 2 of 3 replicas are out of the ISR"),
        ("min.insync.replicas=2", {"rf": 2}, "acks=all is refused while 1 of 2 replicas is out of the ISR"),
        ("min.insync.replicas=1", {"min_isr": 2}, "a record may be acked that only one broker has"),
        ("min.insync.replicas=4", {}, "it counts as 3, the RF; acks=all is refused while 1 of 3 replicas is out of"),
        (
            "replication.factor=5",
            {},
            "1.67 times the disk and the traffic between brokers; acks=all waits for up to 2 more replicas",
        ),
        ("replication.factor=2", {}, "1 copy fewer of each record"),
        ("flush.messages=1", {}, "an fsync for each batch on every replica: fewer records a second"),
        ("flush.messages=1000", {}, "an fsync for each 1,000 records"),
        ("flush.messages=9223372036854775807", {"flush_messages": 1}, "a power loss takes records that"),
        ("unclean.leader.election.enable=false", {"unclean": True}, "has no leader: no writes, no reads"),
        ("unclean.leader.election.enable=true", {}, "lacks committed records may lead"),
    ],
)
def test_a_setting_of_topics_has_its_price(assumed: str, today: dict[str, object], says: str) -> None:
    before, assumption = group(**today), parse_assumption(assumed)
    prices = topic_prices(
        assumption.values, before.settings, assumption.group(before).settings, assumed_release("4.3.1", {})
    )
    assert list(prices) == [assumed]
    assert says in prices[assumed]


def test_a_min_isr_above_rf_costs_all_writes_before_37() -> None:
    before, assumption = group(), parse_assumption("min.insync.replicas=4")
    after = assumption.group(before).settings
    (price,) = topic_prices(assumption.values, before.settings, after, assumed_release("3.6.2", {})).values()
    assert price == "with RF 3, each record with acks=all is refused"


def test_what_stays_as_it_is_costs_nothing() -> None:
    before, assumption = group(min_isr=2), parse_assumption("min.insync.replicas=2,replication.factor=3")
    assert (
        topic_prices(
            assumption.values, before.settings, assumption.group(before).settings, assumed_release("4.3.1", {})
        )
        == {}
    )


def test_a_release_and_its_levels_have_their_prices() -> None:
    today, after = assumed_release("3.9.1", {}), assumed_release("4.3.1", {"metadata.version": 30, ELR: 1})
    prices = release_prices(today, after)
    assert list(prices) == ["kafka=4.3.1", "metadata.version=30", f"{ELR}=1"]
    assert "no leader until an eligible replica is back" in prices[f"{ELR}=1"]
    assert list(release_prices(after, assumed_release("4.3.1", {"metadata.version": 30}))) == [f"{ELR}=0"]
    assert release_prices(after, after) == {}
