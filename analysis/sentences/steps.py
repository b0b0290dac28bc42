"""Says what showed that a step took effect, and what a cut parted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.sentences.words import nodes, without_brackets
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.network import IsolateStep, PartitionStep
from ebbtide.scenario.steps.step import Link, LinkProof, MeasuredLog, StepProof, WaitStep
from ebbtide.scenario.words import CLIENTS

_TOLD_OTHERWISE = ("probe", "cuts", "dropped", "logs", "parts")


def _log_ends(logs: Mapping[str, MeasuredLog]) -> Iterator[tuple[str, str]]:
    """Yield each log's name with its end before and after.

    The broker's copy of the metadata log is left out: it holds no user data.
    """
    for name, log in logs.items():
        if not name.startswith("__") and log.leo_after is not None:
            before = "?" if log.leo_before is None else log.leo_before
            yield f"{name} log end", f"{before} before and {log.leo_after} after"


def _parts(step: StepEntry) -> str:
    """Return what the parts of a composed step did, in order."""
    told = [f"{one.step} {nodes(one.nodes)}".rstrip() + ("" if one.effect_ns else " (no proof)") for one in step.parts]
    return ", ".join(told)


def cut_sides(step: StepEntry) -> str:
    """Return the sides of a cut, one way or both ways.

    The text names them by roles, as in the scenario, and by node.
    """
    links, asked = step.figures(LinkProof).cuts, step.asked
    pairs = links.pairs if links is not None else frozenset[Link]()
    one_way = not links.is_both_ways if links is not None and pairs else asked.to is not None
    roles = _roles(asked.from_, asked.to) or _roles(*asked.groups or ())
    by_targets: dict[tuple[int, ...], list[int]] = {}
    for one in sorted({source for source, _ in pairs}):
        by_targets.setdefault(tuple(sorted(to for at, to in pairs if at == one)), []).append(one)
    if one_way:
        by_node = "; ".join(f"{nodes(sources)} to {nodes(targets)}" for targets, sources in by_targets.items())
        by_role = f"from {' to '.join(roles)}" if roles else ""
    else:
        groups = list(by_targets.values())
        named = ["clients" in role.strip("[]").split(", ") for role in roles]
        if len(groups) == len(named) == 2 and [CLIENTS in group for group in groups] == named[::-1]:
            groups.reverse()
        by_node = " | ".join(map(nodes, groups))
        by_role = f"between {' and '.join(roles)}" if roles else ""
    told = ", by node: ".join(filter(None, (by_role, by_node)))
    if not told:
        return ""
    passed = f"; none of the {len(pairs)} cuts lets a packet pass" if pairs and step.effect_ns is not None else ""
    return f"{'one way' if one_way else 'both ways'} {told}{passed}"


def _roles(*sides: tuple[str, ...] | None) -> list[str]:
    """Return each side of a cut by its roles; empty unless every side is given."""
    told = [f"[{', '.join(map(str, side))}]" for side in sides if side]
    return told if len(told) == len(sides) else []


def proof(step: StepEntry) -> str:
    """Return what showed that a step took effect."""
    if step.fired_ns is None:
        return step.why or "its trigger never came"
    shown = {key.replace("_", " "): value for key, value in step.proof.items() if key not in _TOLD_OTHERWISE}
    shown |= dict(_log_ends(step.figures(StepProof).logs or {}))
    text = "; ".join(
        filter(
            None,
            (cut_sides(step) if step.is_a(PartitionStep, IsolateStep) else "", _parts(step), without_brackets(shown)),
        )
    )
    if step.is_a(WaitStep):
        return text or "its trigger came"
    if step.effect_ns is None:
        return f"no proof{': ' + step.why if step.why else ''}" + (f" ({text})" if text else "")
    return text or "the probe passed"
