"""What a fault leaves behind: the proof that it took effect."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from ebbtide.scenario.steps.table import StepKind


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one injected fault.

    `effect_ns` is when the probe saw the effect; None: the probe did not see it, and the run proves
    nothing (inconclusive), with the reason in `why`. `proof` carries `"probe": "ok"` or `"failed"` and the
    figures that were measured.
    """

    effect_ns: int | None
    proof: dict[str, Any]
    why: str | None = None


class Pending(Protocol):
    """A fault that is in force, and takes effect when something comes by that it is about."""

    in_force: bool

    def effect(self) -> Effect:
        """What it did so far."""


def proven(**figures: Any) -> Effect:
    """The probe saw the effect just now."""
    return Effect(effect_ns=time.time_ns(), proof={"probe": "ok", **figures})


def unproven(why: str, **figures: Any) -> Effect:
    """The probe did not see the effect, because of `why`."""
    return Effect(effect_ns=None, proof={"probe": "failed", **figures}, why=why)


def merged(nodes: Sequence[int], effects: Sequence[Effect]) -> Effect:
    """The effect on several nodes: proven only if each is; figures that add up are added up."""
    if len(effects) == 1:
        return effects[0]
    reasons = [effect.why or "no reason given" for effect in effects if effect.effect_ns is None]
    times = [effect.effect_ns for effect in effects if effect.effect_ns is not None]
    proof: dict[str, Any] = {"probe": "failed" if reasons else "ok"}
    if any("lost_bytes" in effect.proof for effect in effects):
        proof["lost_bytes"] = sum(effect.proof.get("lost_bytes", 0) for effect in effects)
    proof["nodes"] = {str(node): effect.proof for node, effect in zip(nodes, effects, strict=True)}
    return Effect(effect_ns=None if reasons else max(times), proof=proof, why="; ".join(reasons) or None)


class Part(NamedTuple):
    """One fault or heal inside a composite step: its kind, nodes, when it fired, and its effect."""

    kind: StepKind
    nodes: tuple[int, ...]
    fired_ns: int
    effect: Effect


def part(kind: StepKind, nodes: tuple[int, ...], act: Callable[[], Effect]) -> Part:
    """Carry out one part now."""
    return Part(kind, nodes, time.time_ns(), act())


def composed(parts: Sequence[Part], why: str | None = None) -> Effect:
    """The effect of a step made of `parts`, each in `proof["parts"]` as a step of its own.

    Proven only if every part is, and nothing else (`why`) speaks against it.
    """
    reasons = [one.effect.why or "no reason given" for one in parts if one.effect.effect_ns is None]
    reasons += [why] if why is not None else []
    proof: dict[str, Any] = {
        "probe": "failed" if reasons or not parts else "ok",
        "parts": [
            {
                "step": one.kind,
                "nodes": list(one.nodes),
                "fired_ns": one.fired_ns,
                "effect_ns": one.effect.effect_ns,
                "proof": one.effect.proof,
                **({"why": one.effect.why} if one.effect.why is not None else {}),
            }
            for one in parts
        ],
    }
    lost = [one.effect.proof["lost_bytes"] for one in parts if "lost_bytes" in one.effect.proof]
    if lost:
        proof["lost_bytes"] = sum(lost)
    if reasons or not parts:
        return Effect(effect_ns=None, proof=proof, why="; ".join(reasons) or "nothing was done")
    return Effect(effect_ns=parts[-1].effect.effect_ns, proof=proof)
