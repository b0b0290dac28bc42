"""Network faults: partitions, one-way cuts, flapping and slow links.

Every pair of nodes is probed: a cut pair must not pass, every other pair must. A partition that also broke another
connection would make a run mean something else than its schedule says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import permutations

import msgspec

from cluster.host.limits import burst_bytes
from cluster.host.namespaces import Cut
from cluster.runtime.cluster import Runtime
from ebbtide.record.steps import CutSides
from ebbtide.scenario.steps.network import (
    BetweenStep,
    FlapStep,
    HealStep,
    IsolateStep,
    LimitBandwidthStep,
    PartitionStep,
)
from ebbtide.scenario.words import CLIENTS, Role
from faults.base import Effect, Part, carry_out_part, compose_effect, proven_effect, unproven_effect
from faults.injector import Family, Injector, Plan

CUT_PROBE_S = 0.3
"""A packet between namespaces of one host takes under a millisecond; a lost packet is sent again six times."""

PASS_PROBE_S = 2.0

_TRANSFER_S = 2.0
_TRANSFER_BYTES_MAX = 256 << 10
_TOLERANCE = 1.1
"""The kernel counts frames, the probe counts their payload; a bucket is filled in steps."""


def cuts_between(groups: Sequence[Collection[int]]) -> frozenset[Cut]:
    """Return the cuts that separate `groups` from each other, in both directions.

    A group holds node ids, CLIENTS for the clients. Nodes in no group keep all their connections.
    """
    return frozenset(
        Cut(source=source, target=target)
        for one, other in permutations(groups, 2)
        for source in one
        for target in other
        if source != target
    )


def one_way_cuts(sources: Collection[int], targets: Collection[int]) -> frozenset[Cut]:
    """Return the cuts that drop packets from `sources` to `targets`.

    The other direction stays whole.
    """
    return frozenset(Cut(source=source, target=target) for source in sources for target in targets if source != target)


def partition(runtime: Runtime, cuts: Collection[Cut]) -> Effect:
    """Add `cuts` to the cuts in force. Healed by `heal`."""
    if not cuts:
        return unproven_effect("the groups have no connection to cut")
    before = frozenset(runtime.network.dropped_packets())
    runtime.network.cut(cuts)
    in_force = before | frozenset(cuts)
    leaking = runtime.network.passing_pairs(cuts, CUT_PROBE_S)
    broken = _blocked_pairs(runtime, _pairs(runtime) - in_force)
    dropped = {_arrow(cut): count for cut, count in sorted(runtime.network.dropped_packets().items())}
    figures = {"cuts": _arrows(cuts), "dropped": dropped}
    if leaking:
        return unproven_effect(f"packets still pass {', '.join(_arrows(leaking))}", **figures)
    if broken:
        return unproven_effect(f"packets do not pass pairs that are not cut: {', '.join(_arrows(broken))}", **figures)
    return proven_effect(**figures)


def limit(runtime: Runtime, pairs: Collection[Cut], rate_bytes_s: int) -> Effect:
    """Limit each of `pairs` to `rate_bytes_s`. Healed by `heal`.

    Proven by a transfer over each pair. More bytes are sent than may pass at once. Some must arrive, and no more than
    the rate allows in the time that it took. Where the nodes' own packets fill a pair, the transfer may not get
    through: then the kernel must have passed some packets of the pair, and dropped others. Pairs that are cut are not
    measured; pairs that are neither cut nor limited must pass.
    """
    cut = frozenset(runtime.network.dropped_packets())
    measured = frozenset(pairs) - cut
    if not measured:
        return unproven_effect("the groups have no connection to limit")
    runtime.network.limit(pairs, rate_bytes_s)
    burst = burst_bytes(rate_bytes_s)
    size_bytes = 2 * burst + min(rate_bytes_s // 4, _TRANSFER_BYTES_MAX)
    seen = runtime.network.transfer(measured, size_bytes, _TRANSFER_S)
    broken = _blocked_pairs(runtime, _pairs(runtime) - cut)
    figures = {
        "rate_bytes_s": rate_bytes_s,
        "burst_bytes": burst,
        "transfers": {
            _arrow(pair): {"arrived_bytes": one.arrived_bytes, "took_ms": round(one.took_s * 1000, 1)}
            for pair, one in sorted(seen.items())
        },
    }
    fast = [pair for pair, one in seen.items() if one.arrived_bytes > burst + rate_bytes_s * one.took_s * _TOLERANCE]
    now = runtime.network.limit_counts()
    filled = {pair: now[pair] for pair, one in sorted(seen.items()) if not one.arrived_bytes}
    if filled:
        figures["limited"] = {_arrow(pair): msgspec.to_builtins(counts) for pair, counts in filled.items()}
    silent = [pair for pair, counts in filled.items() if not (counts.passed_bytes and counts.dropped_packets)]
    if silent:
        return unproven_effect(f"nothing arrived over {', '.join(_arrows(silent))}", **figures)
    if fast:
        return unproven_effect(f"more than the rate allows passes {', '.join(_arrows(fast))}", **figures)
    if broken:
        return unproven_effect(f"packets do not pass {', '.join(_arrows(broken))}", **figures)
    return proven_effect(**figures)


def flap(
    runtime: Runtime, cuts: Collection[Cut], times: int, period_s: float, pause: Callable[[float], None]
) -> list[Part]:
    """Add and remove `cuts` in turn, each for half of `period_s`.

    Nothing is cut at the end. `pause` waits that long. Ends at the first cut or heal that shows no effect.
    """
    nodes = _nodes_of(cuts)
    parts: list[Part] = []
    for _ in range(times):
        parts.append(carry_out_part("partition", nodes, lambda: partition(runtime, cuts)))
        pause(period_s / 2)
        parts.append(carry_out_part("heal", (), lambda: heal(runtime)))
        if any(one.effect.effect_ns is None for one in parts[-2:]):
            break
        pause(period_s / 2)
    return parts


def heal(runtime: Runtime) -> Effect:
    """Remove every cut and limit.

    Proven when packets pass between all nodes and the clients, and no limit is left.
    """
    figures: dict[str, object] = {
        "dropped": {_arrow(cut): count for cut, count in sorted(runtime.network.dropped_packets().items())}
    }
    limited = runtime.network.limit_counts()
    if limited:
        figures["limited"] = {_arrow(pair): msgspec.to_builtins(counts) for pair, counts in sorted(limited.items())}
    runtime.network.heal()
    broken = _blocked_pairs(runtime, _pairs(runtime))
    if broken:
        return unproven_effect(f"packets still do not pass {', '.join(_arrows(broken))}", **figures)
    if left := runtime.network.limit_counts():
        return unproven_effect(f"still limited: {', '.join(_arrows(left))}", **figures)
    return proven_effect(**figures)


class NetworkFaults:
    """The network steps of one run; `cut`: whether any cut or limit is in force."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self._runtime = injector.runtime
        self.cut = False

    @property
    def family(self) -> Family:
        """How each kind is carried out."""
        return Family(
            plans={
                PartitionStep: self._plan_partition,
                IsolateStep: self._plan_isolate,
                FlapStep: self._plan_flap,
                LimitBandwidthStep: self._plan_limit,
                HealStep: lambda _step: Plan(nodes=(), description="", act=self.heal),
            }
        )

    def heal(self) -> Effect:
        """Remove every cut and limit."""
        self.cut = False
        return heal(self._runtime)

    def _plan_partition(self, step: PartitionStep) -> Plan:
        cuts, sides = self._cuts(step)
        return self._plan_between(cuts, sides, lambda: self._partition(cuts))

    def _plan_isolate(self, step: IsolateStep) -> Plan:
        target = self._injector.view.resolve(step.target)
        others = self._ids(step.from_) if step.from_ else (CLIENTS, *self._runtime.nodes)
        cuts, sides = _cuts_and_sides([target, tuple(sorted(set(others) - set(target)))])
        plan = self._plan_between(cuts, sides, lambda: self._partition(cuts))
        return msgspec.structs.replace(plan, target=target)

    def _plan_flap(self, step: FlapStep) -> Plan:
        cuts, sides = self._cuts(step)
        return self._plan_between(cuts, sides, lambda: self._flap(step, cuts))

    def _plan_limit(self, step: LimitBandwidthStep) -> Plan:
        pairs, sides = self._cuts(step)
        plan = self._plan_between(pairs, sides, lambda: self._limit(step, pairs))
        return msgspec.structs.replace(plan, description=f"{step.rate} {plan.description}")

    def _plan_between(self, cuts: Collection[Cut], sides: CutSides, act: Callable[[], Effect]) -> Plan:
        between = " > " if sides.one_way else " | "
        description = between.join(map(self._injector.node_names, sides.nodes))
        return Plan(nodes=_nodes_of(cuts), description=description, sides=sides, act=act)

    def _partition(self, cuts: Sequence[Cut]) -> Effect:
        self.cut = True
        return partition(self._runtime, cuts)

    def _limit(self, step: LimitBandwidthStep, pairs: Sequence[Cut]) -> Effect:
        self.cut = True
        return limit(self._runtime, pairs, step.rate.bytes_s)

    def _flap(self, step: FlapStep, cuts: Sequence[Cut]) -> Effect:
        self.cut = True
        parts = flap(self._runtime, cuts, step.times, step.period.seconds, self._injector.wait)
        self.cut = False
        return compose_effect(parts)

    def _cuts(self, step: BetweenStep) -> tuple[list[Cut], CutSides]:
        """Return the cuts of a step, and their sides.

        The cuts are between groups, or from one side to the other.
        """
        if step.groups:
            return _cuts_and_sides([self._ids(group) for group in step.groups])
        sources, targets = self._ids(step.from_), self._ids(step.to)
        return sorted(one_way_cuts(sources, targets)), CutSides(nodes=(sources, targets), one_way=True)

    def _ids(self, roles: tuple[Role, ...]) -> tuple[int, ...]:
        return tuple(sorted(self._injector.view.resolve_all(roles)))


def _cuts_and_sides(groups: Sequence[tuple[int, ...]]) -> tuple[list[Cut], CutSides]:
    return sorted(cuts_between(groups)), CutSides(nodes=tuple(groups))


def _nodes_of(cuts: Collection[Cut]) -> tuple[int, ...]:
    """Return the nodes at either end of the cuts."""
    return tuple(sorted({end for cut in cuts for end in (cut.source, cut.target)}))


def _pairs(runtime: Runtime) -> frozenset[Cut]:
    ids = (CLIENTS, *runtime.nodes)
    return frozenset(Cut(source=source, target=target) for source, target in permutations(ids, 2))


def _blocked_pairs(runtime: Runtime, pairs: frozenset[Cut]) -> frozenset[Cut]:
    return pairs - runtime.network.passing_pairs(pairs, PASS_PROBE_S)


def _arrow(cut: Cut) -> str:
    return f"{cut.source}>{cut.target}"


def _arrows(cuts: Collection[Cut]) -> list[str]:
    return [_arrow(cut) for cut in sorted(cuts)]
