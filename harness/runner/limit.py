"""Computes how long a run can take.

A run that takes longer hangs, and can be ended.

The limit is the sum of all deadlines of the run's waits, and time for what has no deadline. A run needs a small part
of it, so a run that reaches the limit waits for something that none of its deadlines ends.
"""

from __future__ import annotations

from cluster.host.writeback import TURN_TIMEOUT_S
from ebbtide.scenario.steps.admin import RequestStep
from ebbtide.scenario.steps.network import FlapStep
from ebbtide.scenario.steps.process import RollingStep, UpgradeStep
from ebbtide.scenario.steps.step import StepSpec
from harness.runner.gates import Gate
from harness.runner.run import RunRequest

_AROUND_S = 900.0
"""Time for class archive, start, topics, clients, final read and record.

Their deadlines take about 6 minutes, doubled for a slow host.
"""
_SETTLES = 3
"""How many waits take up to `settle_s`: for the nodes, the full ISR, and producers with a count."""
_CONTROLLERS_MAX = 3
_ACT_S = 60.0
"""Time for a step besides its own deadlines: a clean stop takes up to 30 s, a probe up to 10 s."""


def limit_s(request: RunRequest) -> float:
    """Return how many seconds after the start of its process a run counts as hanging."""
    scenario = request.scenario
    brokers = scenario.cluster.brokers
    steps_s = sum(_step_s(step, brokers, request.gates.get(index)) for index, step in enumerate(scenario.steps))
    return _AROUND_S + TURN_TIMEOUT_S + _SETTLES * scenario.settle_s + steps_s


def _step_s(step: StepSpec, brokers: int, gate: Gate | None) -> float:
    waits_s = step.deadline_s + (gate.patience_s if gate is not None else 0.0)
    if isinstance(step, RollingStep | UpgradeStep):
        # Each node: down, up and ready, then the whole ISR.
        return waits_s + max(brokers, _CONTROLLERS_MAX) * (_ACT_S + 2 * step.deadline_s)
    if isinstance(step, RequestStep):
        # The answer, then its record.
        return waits_s + 2 * step.deadline_s + _ACT_S
    if isinstance(step, FlapStep):
        return waits_s + step.times * (2 * step.period.seconds + _ACT_S)
    return waits_s + _ACT_S
