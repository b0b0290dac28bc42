"""The step that does nothing but wait."""

from __future__ import annotations

from ebbtide.scenario.steps.kind import Kind
from ebbtide.scenario.steps.step import BaseStep
from ebbtide.scenario.triggers import Trigger


class WaitStep(BaseStep, frozen=True, kw_only=True, tag="wait"):
    """Waits for its trigger."""

    kind = Kind(
        family="waiting",
        does="waits for its trigger",
        proof="the trigger fired",
        spends=(),
        weight=6.0,
    )
    trigger: Trigger


WaitingStep = WaitStep
