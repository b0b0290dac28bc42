"""Finds what steps did to disks: the step that may explain a loss, and the logs measured around a power loss."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from analysis.record.record import Record
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.disk import PowerLossStep
from ebbtide.scenario.steps.table import CLOCK_KINDS, NEEDS_A_SOUND_VOLUME

TOUCHES = NEEDS_A_SOUND_VOLUME | CLOCK_KINDS
"""The kinds of steps that touch a disk or a clock."""


def step_on_disks_of(
    record: Record, nodes: Collection[int], until_ns: int | None = None, kinds: Collection[str] = TOUCHES
) -> StepEntry | None:
    """Return the first step of these kinds on these nodes up to some time; None: there was none."""
    for step in record.proven_steps or ():
        if step.step not in kinds or step.fired_ns is None or {*nodes}.isdisjoint(step.nodes):
            continue
        if until_ns is None or step.fired_ns <= until_ns:
            return step
    return None


class MeasuredLoss(NamedTuple):
    """A power loss left the log of a broker's replica with the end `after`. It had ended at `before`."""

    step: StepEntry
    broker: int
    topic: str
    partition: int
    before: int
    after: int


def measured_power_losses(record: Record) -> Iterator[MeasuredLoss]:
    """Yield each log that a step measured right before and right after a power loss, in the order of the steps.

    Only the kernel's own method counts (`fs-shutdown`): it takes exactly what was not fsynced.
    """
    for step in record.proven_steps or ():
        for broker in step.nodes if step.is_a(PowerLossStep) and step.effect_ns is not None else ():
            proof = step.figures(PowerLossStep.Proof).of(broker)
            logs = proof.logs or {} if proof.method == "fs-shutdown" else {}
            for topic, partition in record.timeline.partitions:
                log = logs.get(f"{topic}-{partition}")
                if log is not None and log.leo_before is not None and log.leo_after is not None:
                    yield MeasuredLoss(step, broker, topic, partition, log.leo_before, log.leo_after)
