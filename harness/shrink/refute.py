"""Refutes candidates without a run, by the explorer of the specification.

The explorer shows that they lose no committed record. The most that a schedule can do becomes a budget, and the
explorer searches every state within it. Only a complete search refutes. A run decides if the model does not know
a step or if the search takes too long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from analysis.spec.explore.question import ask, property_named
from analysis.spec.model.bounds import MAX_BUDGET, Bounds
from analysis.spec.variants import protocol_for
from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import ELR_VERSION
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.roles import Role
from ebbtide.scenario.steps.process import RollingStep
from ebbtide.scenario.steps.step import StepSpec, target_of
from ebbtide.scenario.steps.table import KINDS

MAX_SEARCH_S = 4.0

_SINGLE = ("leader", "last-known-leader", "longest-log", "broker", "controller")


class Refuter:
    """Asks the model of one release.

    Keeps its answers, because many candidates have the same budget.
    """

    def __init__(self, kafka: str, features: Mapping[str, int]) -> None:
        self._known: dict[Bounds, str | None] = {}
        try:
            protocol = protocol_for(kafka, features)
        except UsageError:
            self._variant: str | None = None
            return
        # The explorer assumes the ELR where the variant has it; with the ELR off it would refute too much.
        off = protocol.has_elr and not features.get(ELR_VERSION, 0)
        self._variant = None if off else protocol.name

    def __call__(self, scenario: Scenario) -> str | None:
        """Say why the scenario cannot lose a committed record; None if it may."""
        bounds = bounds_of(scenario)
        if self._variant is None or bounds is None:
            return None
        if bounds not in self._known:
            answer = ask(self._variant, bounds, property_named("committed"), max_time_s=MAX_SEARCH_S)
            model = self._variant.replace("_", "-")
            why = f"the model of {model} loses no record in any of its {answer.found.states:,} states"
            self._known[bounds] = why if answer.holds else None
        return self._known[bounds]


def bounds_of(scenario: Scenario) -> Bounds | None:
    """Return the most that the schedule can do to a partition.

    Returns None if the model's budgets cannot express it.
    """
    if scenario.cluster.broker_properties or scenario.cluster.controller_properties:
        return None
    if any(topic.config for topic in scenario.topics.values()):
        return None
    budget: Counter[str] = Counter()
    for step in scenario.steps:
        costs = _costs(step)
        if costs is None:
            return None
        for cost in costs:
            budget[cost] += _targets(step, scenario)
    if any(count > MAX_BUDGET for count in budget.values()):
        return None
    shapes = {(topic.replication_factor, topic.min_isr) for topic in scenario.topics.values()}
    if len(shapes) != 1:
        return None
    ((rf, min_isr),) = shapes
    all_acks = all(producer.acks == "all" for producer in scenario.producers)
    fitting = Bounds(rf=rf, min_isr=min(min_isr, rf), acks="all" if all_acks else "mixed")
    return msgspec.structs.replace(fitting, **budget)


def _costs(step: StepSpec) -> tuple[str, ...] | None:
    kind = step.mode if isinstance(step, RollingStep) else step.step
    return KINDS[kind].spends


def _targets(step: StepSpec, scenario: Scenario) -> int:
    """Return how many brokers the step can hit at most."""
    role = target_of(step) or Role("brokers")
    if role.kind == "step":
        earlier = [one for one in scenario.steps if one.name == role.argument]
        return _targets(earlier[0], scenario) if earlier and earlier[0] is not step else scenario.cluster.brokers
    return 1 if role.kind in _SINGLE else scenario.cluster.brokers
