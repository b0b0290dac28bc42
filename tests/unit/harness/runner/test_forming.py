"""A cluster that is formed on an earlier release is at the run's release before the run begins."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cluster.runtime.releases import NodeReleases
from ebbtide.errors import HarnessError
from ebbtide.scenario.steps.process import UpgradeStep
from faults.base import proven_effect, unproven_effect
from faults.injector import Plan
from harness.runner.forming import form_on, roll_to


def test_every_node_begins_on_the_earlier_release_which_this_host_must_have() -> None:
    required: list[str] = []
    runtime = SimpleNamespace(
        nodes={100: None, 1: None}, releases=NodeReleases((100, 1), "4.3.1"), require_release=required.append
    )
    form_on(runtime, "3.9.1")  # type: ignore[arg-type]
    assert required == ["3.9.1"]
    assert [runtime.releases[node] for node in (100, 1)] == ["3.9.1", "3.9.1"]


def test_the_controllers_move_before_the_brokers() -> None:
    moved: list[tuple[str, str]] = []

    def plan(step: UpgradeStep) -> Plan:
        moved.append((str(step.target), step.to))
        return Plan(nodes=(1,), description=str(step.target), act=proven_effect)

    noted: list[str] = []
    roll_to("4.3.1", plan, noted.append, timeout_s=5.0)
    assert moved == [("controllers", "4.3.1"), ("brokers", "4.3.1")]
    assert noted == ["upgrade controllers: took effect", "upgrade brokers: took effect"]


def test_a_node_that_does_not_get_there_ends_the_run() -> None:
    def plan(step: UpgradeStep) -> Plan:
        return Plan(nodes=(1,), description="", act=lambda: unproven_effect("it says 3.9.1"))

    with pytest.raises(HarnessError, match=r"controllers could not be moved to Kafka 4\.3\.1") as failed:
        roll_to("4.3.1", plan, lambda _text: None, timeout_s=5.0)
    assert failed.value.got == "it says 3.9.1"
