"""The outcome of a fault: the proof that it took effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from ebbtide import run_clock
from ebbtide.record.node_times import OfNode, merge_times
from ebbtide.scenario.steps.step import StepProof, read_leniently
from ebbtide.scenario.steps.table import StepKind

REFUSED = "Kafka refused:"
"""How `why` begins if Kafka answered an administrative step with an error."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one injected fault.

    `effect_ns` is when the probe saw the effect. None: the probe did not see it, and the run is inconclusive, with
    the reason in `why`. `proof` has `"probe": "ok"` or `"failed"` and the measured figures. `of_node`: when each
    node ended, lost its log and started.
    """

    effect_ns: int | None
    proof: dict[str, object]
    why: str | None = None
    of_node: OfNode = {}

    @property
    def figures(self) -> StepProof:
        """Return what the proof of any step says."""
        return read_leniently(StepProof, self.proof)

    def with_times(self, of_node: OfNode) -> Effect:
        """Return the effect with more times of nodes."""
        return msgspec.structs.replace(self, of_node=merge_times([self.of_node, of_node]))


class PendingFault(Protocol):
    """A fault in force that takes effect when a matching request comes by."""

    in_force: bool

    def effect(self) -> Effect:
        """Return what it has done so far."""


def proven_effect(**figures: Any) -> Effect:
    """Return an effect that the probe saw just now."""
    return Effect(effect_ns=run_clock.now_ns(), proof={"probe": "ok", **figures})


def unproven_effect(why: str, **figures: Any) -> Effect:
    """Return an effect that the probe did not see, because of `why`."""
    return Effect(effect_ns=None, proof={"probe": "failed", **figures}, why=why)


def merge_effects(nodes: Sequence[int], effects: Sequence[Effect]) -> Effect:
    """Return the effect on several nodes: proven only if it is proven on each.

    Figures that can be added are added.
    """
    if len(effects) == 1:
        return effects[0]
    reasons = [effect.why or "no reason given" for effect in effects if effect.effect_ns is None]
    times = [effect.effect_ns for effect in effects if effect.effect_ns is not None]
    proof: dict[str, object] = {"probe": "failed" if reasons else "ok"}
    proof |= _lost_bytes(effects)
    proof["nodes"] = {str(node): effect.proof for node, effect in zip(nodes, effects, strict=True)}
    of_node = merge_times(effect.of_node for effect in effects)
    return Effect(
        effect_ns=None if reasons else max(times), proof=proof, why="; ".join(reasons) or None, of_node=of_node
    )


def _lost_bytes(effects: Iterable[Effect]) -> dict[str, int]:
    lost = [effect.figures.lost_bytes for effect in effects]
    return {} if set(lost) <= {None} else {"lost_bytes": sum(filter(None, lost))}


class Part(NamedTuple):
    """One fault or heal inside a composite step: its kind, nodes, time and effect."""

    kind: StepKind
    nodes: tuple[int, ...]
    fired_ns: int
    effect: Effect


def carry_out_part(kind: StepKind, nodes: tuple[int, ...], act: Callable[[], Effect]) -> Part:
    """Carry out one part now."""
    return Part(kind, nodes, run_clock.now_ns(), act())


def compose_effect(parts: Sequence[Part], why: str | None = None) -> Effect:
    """Return the effect of a step made of `parts`, listed in `proof["parts"]`.

    It is proven only if every part is, and no other reason (`why`) says otherwise.
    """
    reasons = [one.effect.why or "no reason given" for one in parts if one.effect.effect_ns is None]
    reasons += [why] if why is not None else []
    proof: dict[str, object] = {
        "probe": "failed" if reasons or not parts else "ok",
        "parts": [
            {
                "step": one.kind,
                "nodes": list(one.nodes),
                "fired_ns": one.fired_ns,
                "effect_ns": one.effect.effect_ns,
                "proof": one.effect.proof,
                "of_node": msgspec.to_builtins(one.effect.of_node, str_keys=True),
                **({"why": one.effect.why} if one.effect.why is not None else {}),
            }
            for one in parts
        ],
    }
    proof |= _lost_bytes([one.effect for one in parts])
    of_node = merge_times(one.effect.of_node for one in parts)
    if reasons or not parts:
        return Effect(effect_ns=None, proof=proof, why="; ".join(reasons) or "nothing was done", of_node=of_node)
    return Effect(effect_ns=parts[-1].effect.effect_ns, proof=proof, of_node=of_node)
