"""What a fault leaves behind: the proof that it took effect, and which step heals it."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from harness.scenario.model import StepKind

HEALED_BY: dict[StepKind, StepKind] = {
    "kill": "start",
    "stop": "start",
    "power-loss": "start",
    "pause": "resume",
    "partition": "heal",
}
"""The step that ends each fault's effect."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one injected fault.

    `effect_ns` is when the probe saw the effect; None: the probe did not see it, and the run proves
    nothing (inconclusive), with the reason in `why`. `proof` carries `"probe": "ok"` or `"failed"` and the
    figures that were measured.
    """

    effect_ns: int | None
    proof: dict[str, Any]
    why: str | None = None


def proven(**figures: Any) -> Effect:
    """The probe saw the effect just now."""
    return Effect(effect_ns=time.time_ns(), proof={"probe": "ok", **figures})


def unproven(why: str, **figures: Any) -> Effect:
    """The probe did not see the effect, because of `why`."""
    return Effect(effect_ns=None, proof={"probe": "failed", **figures}, why=why)
