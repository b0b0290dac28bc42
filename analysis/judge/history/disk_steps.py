"""Finds the step that may explain why nodes no longer have, or can use, what they had stored."""

from __future__ import annotations

from collections.abc import Collection

from analysis.record.record import Record
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.table import CLOCK_KINDS, NEEDS_A_SOUND_VOLUME

_TOUCHES = NEEDS_A_SOUND_VOLUME | CLOCK_KINDS


def step_on_disks_of(record: Record, nodes: Collection[int], until_ns: int | None = None) -> StepEntry | None:
    """Return the first step that touched a disk or a clock of these nodes up to some time; None: none did."""
    for step in record.proven_steps or ():
        if step.step not in _TOUCHES or step.fired_ns is None or {*nodes}.isdisjoint(step.nodes):
            continue
        if until_ns is None or step.fired_ns <= until_ns:
            return step
    return None
