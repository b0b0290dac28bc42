"""Steps that set the wall clocks of nodes."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType

from ebbtide.scenario.steps.step import Kind, MaybeTargetStep, StepProof
from ebbtide.scenario.words import ClockOffset

_clock = partial(
    Kind,
    family="clock",
    requires="the host's Java",
    undone="not: the offset is in a file of the run's own folder, and ends with the node",
    needs_process=True,
    needs_awake=True,
    unset={"target": "all nodes"},
)


class ClockProof(StepProof, frozen=True, kw_only=True):
    """How far each node's clock is ahead of the wall clock from the step on, until the step is healed."""

    clock_ahead_ns: dict[int, int] | None = None


class SetClockStep(MaybeTargetStep, frozen=True, kw_only=True, tag="set-clock"):
    """Sets the wall clock of nodes off by `offset`; without a target, of all nodes."""

    kind = _clock(
        does="sets the wall clock of Kafka on a node ahead (`+1h`) or back (`-3s`), against the host's clock",
        note="a later step replaces the offset; a node that starts again keeps it. Clients and the times of log lines "
        "stay as they are",
        proof="the time that Kafka's own clock returned in that process, right before and after: it is off by `offset`",
        healed_by="reset-clock",
        counted=("clocks-set", "nodes whose clock was set off"),
    )
    Proof = ClockProof
    shown = MappingProxyType({"offset": ClockOffset.shown})
    offset: ClockOffset


class ResetClockStep(MaybeTargetStep, frozen=True, kw_only=True, tag="reset-clock"):
    """Sets the wall clock of nodes right again; without a target, of all nodes."""

    kind = _clock(
        does="sets the wall clock of Kafka on a node right again",
        proof="the time that Kafka's own clock returned in that process: it was off before, and is the host's now",
        nothing_to_end=("nothing to reset: no clock is set off", "after a set-clock"),
    )
    Proof = ClockProof


ClockStep = SetClockStep | ResetClockStep
