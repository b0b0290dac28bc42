"""Lists what must hold in every state of a partition: name, KIP clause, predicate.

Each clause lists the variants in which it is promised. A release that breaks a clause of the KIP by
design is not listed: its ELR may hold brokers that are no replicas, or outlive min ISR after a
reassignment. docs/spec.md names these releases with the source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from analysis.spec.partition import NO_LEADER, Cluster, Partition
from analysis.spec.variants import IN_NO_RELEASE, VARIANTS, base_of


class Invariant(NamedTuple):
    """A predicate that must be true after every event: `holds(partition, cluster)`.

    `source` names the KIP clause or the code. `across_features` is false where a change of
    eligible.leader.replicas.version may break it for good: the fields of the old level stay until
    the partition changes, and the rules of the new level then apply to them.
    """

    name: str
    source: str
    holds: Callable[[Partition, Cluster], bool]
    across_features: bool = True


_ALL = tuple(VARIANTS)
_ELR = tuple(name for name, protocol in VARIANTS.items() if protocol.has_elr)
_WITHOUT_ELR = tuple(name for name in _ALL if name not in _ELR)
_KIP = IN_NO_RELEASE
_SHIPPED_ELR = tuple(name for name in _ELR if name not in _KIP)


_TABLE: tuple[tuple[tuple[str, ...], Invariant], ...] = (
    (
        _ALL,
        Invariant(
            "leader-in-isr",
            "PartitionChangeBuilder; KIP-966, Leader election",
            lambda p, _: p.leader == NO_LEADER or p.leader in p.isr,
        ),
    ),
    (
        _ALL,
        Invariant(
            "isr-of-replicas",
            "Replicas.validateIsr",
            lambda p, _: p.isr.issubset(p.replicas),
        ),
    ),
    (
        _ALL,
        Invariant(
            "reassignment-of-replicas",
            "PartitionReassignmentReplicas",
            lambda p, _: (p.adding | p.removing).issubset(p.replicas),
        ),
    ),
    (
        _ALL,
        Invariant(
            "recovering-alone",
            "KIP-704, Leader and controller: RECOVERING means |ISR| = 1",
            lambda p, _: not p.recovering or len(p.isr) <= 1,
        ),
    ),
    (
        _WITHOUT_ELR,
        Invariant(
            "isr-not-empty",
            "KIP-903, A notable exception: the last ISR member stays",
            lambda p, _: bool(p.isr),
        ),
    ),
    (
        _WITHOUT_ELR,
        Invariant("no-elr", "before KIP-966", lambda p, _: not p.elr and not p.last_known),
    ),
    (
        _ELR,
        Invariant(
            "elr-not-in-isr",
            "KIP-966, ELR invariants: the member of ELR should not be in ISR",
            lambda p, _: not p.elr & p.isr,
        ),
    ),
    (
        _SHIPPED_ELR,
        Invariant(
            "elr-below-configured-min-isr",
            "KIP-966, ELR invariants, as shipped: if ELR is not empty, the ISR is under the configured min ISR",
            lambda p, c: not p.elr or len(p.isr) < c.min_isr,
            across_features=False,
        ),
    ),
    (
        _SHIPPED_ELR,
        Invariant(
            "one-last-known-leader",
            "PartitionChangeBuilder.maybeUpdateLastKnownLeader",
            lambda p, _: len(p.last_known) <= 1,
        ),
    ),
    (
        _KIP,
        Invariant(
            "elr-below-min-isr",
            "KIP-966, ELR invariants: if ELR is not empty, the ISR is under min ISR",
            lambda p, c: not p.elr or len(p.isr) < VARIANTS["kip966"].effective_min_isr(p, c),
            across_features=False,
        ),
    ),
    (
        _KIP,
        Invariant(
            "elr-of-replicas",
            "KIP-966, Other behaviors 4: the ELR only has replicas of the final list",
            lambda p, _: p.elr.issubset(p.replicas),
            across_features=False,
        ),
    ),
    (
        _KIP,
        Invariant(
            "last-known-elr-is-neither",
            "KIP-966, Other behaviors 6: a last known ELR member was removed from the ELR",
            lambda p, _: (p.isr | p.elr).isdisjoint(p.last_known),
            across_features=False,
        ),
    ),
    (
        _KIP,
        Invariant(
            "last-known-leader-while-leaderless",
            "KIP-966, Other behaviors 7c: it will be cleaned when a new leader is elected",
            lambda p, _: p.leader == NO_LEADER or p.last_known_leader == NO_LEADER,
        ),
    ),
)

_OF_VARIANT: dict[str, tuple[Invariant, ...]] = {
    name: tuple(invariant for promised, invariant in _TABLE if name in promised) for name in _ALL
}


def invariants_of(variant: str) -> tuple[Invariant, ...]:
    """Return the invariants of a variant in the order they are checked.

    `variant` is a key of `VARIANTS`; a variant of the user has those of its base.
    """
    return _OF_VARIANT[base_of(variant)]
