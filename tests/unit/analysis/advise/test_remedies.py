"""Changes are combined: the cheapest set that saves an event is found, and only what the model confirms is said."""

from __future__ import annotations

import msgspec
import pytest
from made_snapshots import ELR, brokers, cluster, topic

from analysis.advise import answers
from analysis.advise.advice import Advice, advise
from analysis.advise.headline import headline
from analysis.advise.known import DEFECTS
from analysis.advise.remedies import Remedy
from ebbtide.scenario import catalogue

MIN_ISR_AND_ELR = f"min.insync.replicas=2,{ELR}=1"


@pytest.fixture(scope="module")
def on_40() -> Advice:
    return advise(cluster("4.0", topic("offsets", 3, 1), topic("mine", 1, 1)))


def remedies(advice: Advice, name: str) -> dict[str, Remedy]:
    return next({one.assume: one for one in group.remedies} for group in advice.groups if name in group.group.topics)


def test_min_isr_and_the_elr_together_save_what_neither_saves_alone(on_40: Advice) -> None:
    found = remedies(on_40, "offsets")
    assert found[MIN_ISR_AND_ELR].keys == ("power-1-worst",)
    assert "min.insync.replicas=2" not in found
    assert f"{ELR}=1" not in found
    assert "an fsync" not in found[MIN_ISR_AND_ELR].price


def test_the_price_of_a_set_is_that_of_each_of_its_changes(on_40: Advice) -> None:
    both = remedies(on_40, "offsets")[MIN_ISR_AND_ELR]
    assert list(both.prices) == [f"{ELR}=1", "min.insync.replicas=2"]
    assert both.price == "; ".join(both.prices.values())


def test_a_set_is_named_only_for_an_event_that_no_cheaper_one_saves(on_40: Advice) -> None:
    for group in on_40.groups:
        for several in (one for one in group.remedies if len(one.parts) > 1):
            cheaper = {key for one in group.remedies if one.cost < several.cost for key in one.keys}
            assert set(several.keys) - cheaper


def test_the_changes_for_the_whole_cluster_save_the_likeliest_events_first(on_40: Advice) -> None:
    first, second, *_ = on_40.changes
    assert (first.assume, first.topics) == ("replication.factor=3,min.insync.replicas=2", ("mine",))
    assert first.costs == ("availability", "disk")
    assert (second.assume, second.topics) == (MIN_ISR_AND_ELR, ("offsets",))
    assert len(on_40.changes) <= 3


@pytest.mark.parametrize("min_isr", [1, 2])
def test_more_replicas_are_named_also_where_the_min_isr_is_above_the_rf_today(min_isr: int) -> None:
    first = advise(cluster("4.3", topic("logs", 1, min_isr))).changes[0]
    assert (first.assume, first.topics) == ("replication.factor=3,min.insync.replicas=2", ("logs",))


def test_more_replicas_save_nothing_from_containers_that_are_all_new_at_once() -> None:
    emptied = tuple(msgspec.structs.replace(one, keeps_disk=False) for one in brokers(3, 30))
    advice = advise(cluster("4.3", topic("logs", 1, 1), brokers=emptied))
    assert "by one routine event: a broker gets a new container, with an empty disk" in headline(advice).text
    assert not [one for one in remedies(advice, "logs").values() if "containers" in one.keys]


def test_a_later_change_says_what_it_adds_to_those_before_it() -> None:
    unclean = topic("clicks", 3, 1, configs={"unclean.leader.election.enable": "true"})
    first, *later = advise(cluster("3.9", unclean)).changes
    assert first.change == "set unclean.leader.election.enable=false"
    assert later
    for one in later:
        assert "unclean.leader" not in one.change
        assert "in-sync replicas are all down" not in one.price
        assert "unclean.leader.election.enable=false" in one.assume or one.assume == "flush.messages=1"


def test_the_worst_topics_come_first() -> None:
    advice = advise(cluster("4.3", topic("safe", 3, 2), topic("alone", 1, 1), features={ELR: 1}))
    assert [one.group.topics for one in advice.groups] == [("alone",), ("safe",)]


def test_sets_that_cannot_save_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    search = answers.search_event

    def counted(*args: object) -> object:
        asked.append(args)
        return search(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(answers, "search_event", counted)
    advise(
        cluster("4.0", topic("a", 3, 1), topic("b", 3, 2), topic("c", 2, 1), topic("d", 1, 1), brokers=brokers(5, 25))
    )
    assert len(asked) < 200


def test_where_a_bug_can_be_seen_is_an_address_or_a_scenario_of_the_package() -> None:
    places = [place for one in DEFECTS if one.change for place in one.see]
    assert "https://github.com/apache/kafka/pull/20716" in places
    for place in places:
        if not place.startswith("https://"):
            assert catalogue.find(place.removeprefix("ebbtide scenarios show "))
