"""Steps on a node's process."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from ebbtide.scenario.steps.step import Kind, MaybeTargetStep, StepProof, TargetStep

_process = partial(
    Kind,
    family="process",
    undone="nodes end with the harness (local), or by `ebbtide clean`: ledger entries `process`, `container`",
)


class KillStep(TargetStep, frozen=True, kw_only=True, tag="kill"):
    """Ends a process at once."""

    kind = _process(
        does="sends SIGKILL",
        proof="the pid no longer exists, and the kernel says that SIGKILL ended it (waitpid)",
        healed_by="start",
        needs_process=True,
        counted=("kills", "nodes killed"),
        weight=3.0,
        at_controllers=True,
    )


class StopStep(TargetStep, frozen=True, kw_only=True, tag="stop"):
    """Ends a process by a controlled shutdown."""

    kind = _process(
        does="sends SIGTERM, which is Kafka's controlled shutdown",
        proof="the pid no longer exists, exit code 143 or 0; a crash or a forced end is no proof",
        healed_by="start",
        needs_process=True,
        needs_awake=True,
        clean=True,
        counted=("clean-stops", "nodes shut down cleanly"),
        weight=2.0,
        lasts_s=4.0,
    )


class PauseStep(TargetStep, frozen=True, kw_only=True, tag="pause"):
    """Freezes a process."""

    kind = _process(
        does="sends SIGSTOP",
        proof="the process is in state T in /proc",
        healed_by="resume",
        pauses=True,
        needs_process=True,
        needs_awake=True,
        counted=("pauses", "nodes paused"),
        weight=1.5,
        at_controllers=True,
        lasts_s=0.5,
    )


class ResumeStep(TargetStep, frozen=True, kw_only=True, tag="resume"):
    """Thaws a process."""

    kind = _process(
        does="sends SIGCONT",
        proof="the process was in state T, left it, and its threads had CPU time again",
        needs_process=True,
        weight=2.0,
        lasts_s=0.5,
    )


class StartStep(TargetStep, frozen=True, kw_only=True, tag="start"):
    """Starts a process."""

    kind = _process(
        does="starts the process",
        starts=True,
        proof="the process was down, and runs; the metadata log says whether the node is ready",
        weight=5.0,
    )

    class Proof(StepProof, frozen=True, kw_only=True):
        """In an upgrade: the release that the node now runs (`to`), or how it `refused` another one."""

        to: str | None = None
        refused: dict[str, Any] | None = None


class RestartStep(TargetStep, frozen=True, kw_only=True, tag="restart"):
    """Stops nodes cleanly and starts them, one after the other."""

    kind = _process(
        does="a stop, then a start",
        note="one node after the other",
        proof="the proofs of the stop and of the start",
        ends_itself=True,
        needs_process=True,
        needs_awake=True,
        clean=True,
        weight=0.7,
        lasts_s=5.0,
    )


class RollingStep(MaybeTargetStep, frozen=True, kw_only=True, tag="rolling"):
    """Takes nodes down and up, one after the other; without a target, all brokers."""

    kind = _process(
        does="a stop, kill or power-loss and a start, one broker after the other; "
        "goes on once the ISR of every partition is whole again",
        note="waits at most `deadline_s` for that",
        unset={"target": "all brokers"},
        proof="the proofs of every part, and the whole ISR within `deadline_s`",
        ends_itself=True,
        weight=0.4,
        lasts_s=15.0,
    )
    mode: Literal["restart", "kill", "power-loss"]


class UpgradeStep(MaybeTargetStep, frozen=True, kw_only=True, tag="upgrade"):
    """Moves nodes to another release, older or newer, one after the other; without a target, all brokers."""

    kind = _process(
        does="a stop, and a start on another release, one node after the other",
        note="goes on once the node has caught up and the ISR of every partition is whole again; leaves out "
        "nodes that run `to` already; waits at most `deadline_s` for each node. Feature levels stay as they are",
        unset={"target": "all brokers", "expect_refusal": "the node must run"},
        proof="the proofs of the stop and the start, `to` in the node's own log, and the whole ISR within `deadline_s`",
        ends_itself=True,
        needs_process=True,
        needs_awake=True,
        clean=True,
        weight=4.0,
        lasts_s=12.0,
    )
    shown = MappingProxyType(
        {
            "to": "a Kafka release, e.g. '4.3.1'",
            "expect_refusal": "the node must refuse to run on `to`, and then starts on its old release again",
        }
    )
    to: str
    expect_refusal: bool | None = None


ProcessStep = KillStep | StopStep | PauseStep | ResumeStep | StartStep | RestartStep | RollingStep | UpgradeStep
