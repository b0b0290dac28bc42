"""Forms a cluster on an earlier release, and moves it to the release of the run before the run begins."""

from __future__ import annotations

from collections.abc import Callable

from cluster.runtime.cluster import Runtime
from ebbtide.errors import HarnessError
from ebbtide.scenario.roles import Role
from ebbtide.scenario.steps.process import UpgradeStep
from faults.base import Effect
from faults.injector import Plan

_FIRST, _SECOND = Role("controllers"), Role("brokers")


def form_on(runtime: Runtime, kafka: str) -> None:
    """Let every node begin on this release; call it before `prepare`. Raises `HarnessError`."""
    runtime.require_release(kafka)
    for node in runtime.nodes:
        runtime.releases.install(node, kafka)


def roll_to(kafka: str, plan: Callable[[UpgradeStep], Plan], note: Callable[[str], None], timeout_s: float) -> None:
    """Move the controllers, then the brokers to this release, one after the other.

    Raises `HarnessError` if a node does not get there.
    """
    for role in (_FIRST, _SECOND):
        planned = plan(UpgradeStep(target=role, to=kafka, deadline_s=timeout_s))
        effect = planned.act()
        assert isinstance(effect, Effect)
        if effect.effect_ns is None:
            raise HarnessError(f"the {role} could not be moved to Kafka {kafka}", got=effect.why)
        note(f"upgrade {planned.description}: took effect")
