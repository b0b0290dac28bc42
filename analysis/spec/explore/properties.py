"""Lists the properties that a search can check, by name.

A property is a promise that a new leader keeps, or a check of every state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from analysis.spec.explore.search import Check
from analysis.spec.invariants import Invariant, invariants_of
from analysis.spec.model import words as w
from analysis.spec.model.machine import Machine, Promise
from analysis.spec.model.words import DATA_BITS, LOG, State, unpack
from analysis.spec.partition import NO_LEADER, Cluster, Partition


class Property(NamedTuple):
    """A property: `promise` is checked on elections, `check` on every state.

    Either may be missing.
    """

    name: str
    says: str
    clause: str
    promise: Promise = "committed"
    check: Callable[[Machine], Check] | None = None


def _members_have_the_hw(place: int) -> Check:
    """Return a check that intact members have the log up to the HW.

    Intact members are unfenced or cleanly stopped. The controller knows of no loss of theirs, and
    there is none. A broker that was killed or lost power may lack records until it registers.
    """
    fine = ((w.UP | w.UNFENCED) << DATA_BITS, w.CLEAN << DATA_BITS)
    member = place << DATA_BITS

    def check(state: State) -> bool:
        committed = unpack(state[1]).committed
        return all(
            not committed & ~word
            for word in state[2:]
            if word & member and any(word & flags == flags for flags in fine)
        )

    return check


def _logs_match(machine: Machine) -> Check:
    def check(state: State) -> bool:
        logs = [word & LOG for word in state[2:]]
        for at, one in enumerate(logs):
            for other in logs[:at]:
                differing = one ^ other
                # Two logs share no record above the first record that only one of them has.
                if one & other & ~((differing & -differing) - 1 if differing else LOG):
                    return False
        return True

    return check


def _has_leader_if_electable(machine: Machine) -> Check:
    def holds(partition: Partition, cluster: Cluster) -> bool:
        return partition.leader != NO_LEADER or not (partition.isr or partition.elr) & cluster.live

    return _hold_in(machine, (Invariant("available", "", holds),))


def property_of(rule: Invariant) -> Property:
    """Return an invariant alone as a property; lost records do not break it."""
    return Property(rule.name, rule.source, "yours", "none", lambda machine: _hold_in(machine, (rule,)))


def _hold_in(machine: Machine, rules: Sequence[Invariant]) -> Check:
    known: dict[tuple[int, ...], bool] = {}

    def check(state: State) -> bool:
        key = (state[0], *[word >> DATA_BITS for word in state[2:]])
        if key not in known:
            partition, cluster = machine.partition(state)
            known[key] = all(rule.holds(partition, cluster) for rule in rules)
        return known[key]

    return check


PROPERTIES: dict[str, Property] = {
    one.name: one
    for one in (
        Property("committed", "no committed record is lost", "KIP-966, Motivation: min ISR - 1 unclean shutdowns"),
        Property("acks-all", "no record acknowledged under acks=all is lost", "KIP-966, Motivation", "acks-all"),
        Property("acks-1", "no record acknowledged under acks=1 is lost", "KIP-966, Ack=0/1 comparison", "acks-1"),
        Property("hw", "the HW that leaders serve does not go back", "KIP-966, Eligible Leader Replicas", "hw"),
        Property(
            "recovery",
            "no committed record is lost, unless every LastKnownElr member lost one before a recovery",
            "Last Replica Standing, Balanced mode",
            "recovery",
        ),
        Property(
            "isr-has-hw",
            "ISR members have the log up to the HW",
            "KIP-966, ISR invariants",
            check=lambda _: _members_have_the_hw(w.IN_ISR),
        ),
        Property(
            "elr-has-hw",
            "ELR members have the log up to the HW",
            "KIP-966, ELR invariants",
            check=lambda _: _members_have_the_hw(w.IN_ELR),
        ),
        Property("log-matching", "logs that share a record share all before it", "KIP-101, KIP-279", check=_logs_match),
        Property(
            "available",
            "a partition with a live ISR member, or no ISR and a live ELR member, has a leader",
            "KIP-966, Leader election 1 and 2",
            check=_has_leader_if_electable,
        ),
        Property(
            "invariants",
            "every partition state keeps the invariants of the variant",
            "analysis.spec.invariants",
            check=lambda machine: _hold_in(machine, invariants_of(machine.protocol.name)),
        ),
    )
}
