"""Searches without a cut network, one broker after the other, and with unclean elections."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.spec.explore.properties import PROPERTIES
from analysis.spec.explore.question import Answer, ask
from analysis.spec.model.bounds import Bounds, bounds_in_words

EVERY = ("kraft", "kip903", "strict_min_isr_39", "elr_40", "elr_43")


def asked(variant: str, **bounds: Any) -> Answer:
    return ask(variant, Bounds(**bounds), PROPERTIES["acks-all"])


@pytest.mark.parametrize("variant", EVERY)
def test_while_all_replicas_are_in_sync_only_the_loss_of_all_loses(variant: str) -> None:
    assert asked(variant, power_losses=2, cuts=False).holds
    assert asked(variant, power_losses=3, cuts=False).trace is not None


@pytest.mark.parametrize("variant", EVERY)
def test_one_broker_after_the_other_may_lose_power(variant: str) -> None:
    assert asked(variant, power_losses=3, cuts=False, in_turn=True).holds


def test_no_running_broker_is_fenced_or_shrunk_without_cuts() -> None:
    found = asked("strict_min_isr_39", power_losses=3, cuts=False).trace
    assert found is not None
    down: set[int] = set()
    for step in found.steps:
        if step.kind == "power-loss":
            down.add(step.broker)
        elif step.kind == "start":
            down.discard(step.broker)
        assert step.kind != "fence" or step.broker in down
        assert step.kind != "ask-shrink" or set(step.brokers) <= down


def test_a_single_replica_loses_by_power_and_by_its_disk_only() -> None:
    alone = {"rf": 1, "min_isr": 1, "cuts": False}
    assert asked("elr_43", power_losses=1, **alone).trace is not None
    assert asked("elr_43", kills=1, disks=1, **alone).trace is not None
    assert asked("elr_43", kills=1, stops=1, **alone).holds


def test_unclean_elections_lose_by_a_cut_alone_from_3_9_on() -> None:
    assert asked("strict_min_isr_39", min_isr=1, unclean=True).trace is not None
    assert asked("strict_min_isr_38", min_isr=1, unclean=True).holds
    assert asked("strict_min_isr_39", min_isr=1).holds


def test_the_bounds_say_what_they_leave_out() -> None:
    words = bounds_in_words(Bounds(unclean=True, cuts=False, in_turn=True), recovers=False)
    assert "unclean elections on, no running broker is cut off, one broker after the other" in words
