"""Finds the consumers whose rows say soon after it what a leader answered."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.roles import CLIENTS
from ebbtide.scenario.steps.disk import SlowDiskStep
from ebbtide.scenario.steps.process import PauseStep
from ebbtide.scenario.steps.table import CUT_KINDS, WIRE_KINDS


def prompt_consumers(scenario: Scenario | None, steps: Sequence[StepEntry] | None) -> frozenset[int]:
    """Return the ids of consumers that return a record soon after a leader answered with it.

    A consumer with a rate limit keeps records for a while, and a member of a group while it joins. None is prompt if
    the scenario or the steps are not known, or if a step may have delayed answers.
    """
    if scenario is None or steps is None or any(_delays_answers(one) for one in steps):
        return frozenset()
    return frozenset(one.id for one in scenario.consumers if one.max_rate_per_s is None and one.group is None)


def _delays_answers(step: StepEntry) -> bool:
    """Return whether a step may keep a leader's answer from a client for a while."""
    sides = step.parted
    between_clients = step.step in CUT_KINDS and (sides is None or any(CLIENTS in side for side in sides.nodes))
    return between_clients or step.step in WIRE_KINDS or step.is_a(PauseStep, SlowDiskStep)
