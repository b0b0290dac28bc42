"""Counts the states of the metadata timeline: elections, ISR and ELR, and what known bugs are about.

Each fact counts cases, so that a prediction can ask for some, or for none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from analysis.judge.history.steps import unclean_registrations
from analysis.record.record import Record
from analysis.record.timeline import Timeline, lasting
from ebbtide.coverage_fact import Fact
from ebbtide.record.rows import PartitionState
from ebbtide.scenario.steps.table import HEALED_BY

FACTS = (
    Fact(
        "log",
        "elections",
        "elections by which a partition got another leader, or a leader again",
        "KIP-966, Leader election",
    ),
    Fact("log", "elections-from-elr", "such elections of an ELR member", "KIP-966, Leader election"),
    Fact(
        "log", "elections-of-last-known-leader", "such elections of the last known leader", "KIP-966, Leader election 4"
    ),
    Fact("log", "unclean-elections", "such elections of anyone else outside ISR and ELR", "KIP-704, KRaft Controller"),
    Fact("log", "leaderless", "times that a partition lost its leader and got no other", "KIP-966, Leader election 3"),
    Fact("log", "isr-below-min", "times that an ISR fell below min ISR", "KIP-966, HW 1"),
    Fact("log", "isr-empty", "times that an ISR became empty", "KIP-966, ISR invariants 1"),
    Fact("log", "elr-non-empty", "times that an empty ELR got members", "KIP-966, ELR update 2"),
    Fact("log", "recovering", "times that a partition became RECOVERING", "KIP-704, KRaft Controller"),
    Fact("log", "brokers-fenced", "records that fence a broker", "KIP-966, Controller behaviors 2"),
    Fact(
        "log",
        "unclean-registrations",
        "registrations after a proven kill or power loss",
        "KIP-966, Controller behaviors 4",
    ),
    Fact(
        "log",
        "elections-of-a-fenced-broker",
        "elections of a broker that was fenced or not registered",
        "KAFKA-19522; KIP-966, Leader election 4",
    ),
    Fact(
        "log",
        "elections-while-recovering",
        "elections while the partition was RECOVERING",
        "KIP-704, Topic Partition Leader 2",
        ("recovering",),
    ),
    Fact(
        "log",
        "leaderless-with-a-live-replica",
        "states without a leader during which a replica was unfenced",
        "KAFKA-12670; KIP-966, Leader election 3",
    ),
    Fact("log", "isr-shrinks", "records by which an ISR lost members", "KIP-966, Controller behaviors 1"),
    Fact(
        "log",
        "isr-left-again",
        "replicas that left an ISR which they had joined under that leader epoch",
        "KAFKA-19996",
    ),
    Fact("log", "elr-of-two", "times that an ELR grew to two members or more", "KIP-966, ELR update 2"),
    Fact(
        "log",
        "leader-epoch-raised-by-an-isr-shrink",
        "ISR shrinks that raised the epoch of a leader that stayed",
        "KAFKA-15021",
        ("isr-shrinks",),
    ),
    Fact("log", "controller-failovers", "controllers that wrote a partition's state after another one had", "KIP-595"),
    Fact(
        "log",
        "reassignments-completed",
        "reassignments that ended with their target replicas",
        "KIP-966, Other behaviors 4a",
    ),
    Fact(
        "log",
        "reassignments-completed-below-min-isr",
        "completed ones with an ISR below min ISR",
        "KAFKA-15665; KIP-966, Other behaviors 4a",
    ),
    Fact(
        "log",
        "reassignments-completed-without-a-replica",
        "completed ones with a target replica outside the ISR",
        "KAFKA-19975; KIP-966, Other behaviors 4a",
    ),
    Fact(
        "log",
        "reassignments-held-back",
        "reassignments that waited although every replica that they add was in the ISR",
        "KAFKA-15665, KAFKA-19975; KIP-966, Other behaviors 4a",
    ),
    Fact(
        "log",
        "reassignments-cancelled-below-min-isr",
        "reassignments that were cancelled with an ISR below min ISR",
        "KIP-966, Other behaviors 4b",
    ),
    Fact(
        "steps",
        "faults-while-recovering",
        "faults that fell on a RECOVERING partition",
        "KIP-704, Topic Partition Leader",
        ("recovering",),
    ),
)

_ROADS = {
    "elr": "elections-from-elr",
    "last-known-leader": "elections-of-last-known-leader",
    "unclean": "unclean-elections",
}
_OF_BROKERS = frozenset(
    {"brokers-fenced", "elections-of-a-fenced-broker", "leaderless-with-a-live-replica", "unclean-registrations"}
)
"""Facts that need the registrations of brokers; unknown without them."""


def count(record: Record) -> dict[str, int]:
    """Count the facts; those that need a missing table are left out."""
    facts: Counter[str] = Counter({fact.name: 0 for fact in FACTS})
    timeline, rules, steps = record.timeline, record.protocol, record.split_steps or ()
    moved = [one for one in record.elections if one.changes_leader]
    facts["elections"] = len(moved)
    for road, fact in _ROADS.items():
        facts[fact] = sum(one.road == road for one in moved)
    facts["unclean-registrations"] = sum(1 for _ in unclean_registrations(steps, timeline.brokers))
    facts["brokers-fenced"] = sum(event.event == "fenced" for event in timeline.brokers)
    # Controllers that wrote a partition state after another one had.
    written_under = {state.metadata_epoch for states in timeline.partitions.values() for state in states}
    facts["controller-failovers"] = max(len(written_under) - 1, 0)
    facts["leaderless-with-a-live-replica"] = sum(1 for _ in _leaderless_with_a_live_replica(timeline))
    for before, after in timeline.pairs():
        facts["leaderless"] += after.leader < 0 <= before.leader
        facts["isr-empty"] += bool(before.isr) and not after.isr
        facts["elr-non-empty"] += bool(after.elr) and not before.elr
        facts["elr-of-two"] += len(after.elr) >= 2 > len(before.elr)
        facts["recovering"] += after.recovering and not before.recovering
        min_isr = rules.leader_min_isr(after, after.metadata_offset)
        facts["isr-below-min"] += min_isr is not None and len(after.isr) < min_isr <= len(before.isr)
        same_replicas = set(after.replicas) == set(before.replicas)
        shrunk = same_replicas and set(after.isr) < set(before.isr)
        facts["isr-shrinks"] += shrunk
        facts["leader-epoch-raised-by-an-isr-shrink"] += (
            shrunk and after.leader == before.leader >= 0 and after.leader_epoch > before.leader_epoch
        )
        if after.leader >= 0 and after.leader != before.leader:
            facts["elections-while-recovering"] += before.recovering
            event = _newest_event(timeline, after.leader, after.metadata_offset)
            facts["elections-of-a-fenced-broker"] += event in ("registered", "fenced", "unregistered")
        if after.completes_reassignment(before):
            _count_ended_reassignment(record, before, after, facts)
    facts["isr-left-again"] = sum(_count_isr_rejoins_left(states) for states in timeline.partitions.values())
    facts["reassignments-held-back"] = sum(1 for _ in _held_back_reassignments(timeline))
    spans = [
        one
        for states in timeline.partitions.values()
        for one in lasting(((state.at_ns, state) for state in states), lambda state: state.recovering or None)
    ]
    faults = [step.effect_ns for step in steps if step.step in HEALED_BY and step.effect_ns is not None]
    facts["faults-while-recovering"] = sum(
        any(one.begin_ns <= at and (one.end_ns is None or at < one.end_ns) for one in spans) for at in faults
    )
    unknown = _OF_BROKERS if "brokers" in timeline.missing else frozenset[str]()
    return {name: number for name, number in facts.items() if name not in unknown}


def _count_ended_reassignment(
    record: Record, before: PartitionState, after: PartitionState, facts: Counter[str]
) -> None:
    """Count a reassignment that ended, as completed or as cancelled.

    It is completed if it ended with its target replicas.
    """
    configured = record.protocol.configured_min_isr(after.topic, after.metadata_offset)
    below = configured is not None and len(after.isr) < min(configured, len(after.replicas))
    if set(after.replicas) == set(before.replicas) - set(before.removing):
        facts["reassignments-completed"] += 1
        facts["reassignments-completed-without-a-replica"] += not set(after.replicas) <= set(after.isr)
        facts["reassignments-completed-below-min-isr"] += below
    else:
        facts["reassignments-cancelled-below-min-isr"] += below


def _count_isr_rejoins_left(states: Sequence[PartitionState]) -> int:
    """Count how often a replica joined the ISR and left it under one leader epoch."""
    count, joined = 0, set[int]()
    for before, after in pairwise(states):
        if after.leader_epoch != before.leader_epoch:
            joined = set()
            continue
        left = joined - set(after.isr)
        count += len(left)
        joined = joined - left | (set(after.isr) - set(before.isr))
    return count


def _held_back_reassignments(timeline: Timeline) -> Iterator[PartitionState]:
    """Yield the states in which a reassignment waited although it could complete.

    It could, because each replica that it adds was in the ISR.
    """
    for before, after in timeline.pairs():
        if after.adding and set(after.adding) <= set(after.isr) and not set(before.adding) <= set(before.isr):
            yield after


def _leaderless_with_a_live_replica(timeline: Timeline) -> Iterator[PartitionState]:
    """Yield the states without a leader during which a replica was unfenced.

    A replica that is unfenced by the record batch that elects it does not count: the batch has one
    time.
    """
    for states in timeline.partitions.values():
        for at, state in enumerate(states):
            if state.leader >= 0:
                continue
            following = states[at + 1] if at + 1 < len(states) else None
            came = {
                event.broker
                for event in timeline.brokers
                if event.event == "unfenced"
                and event.metadata_offset > state.metadata_offset
                and (following is None or event.at_ns < following.at_ns)
            }
            if any(
                one in came or _newest_event(timeline, one, state.metadata_offset) == "unfenced"
                for one in state.replicas
            ):
                yield state


def _newest_event(timeline: Timeline, broker: int, metadata_offset: int) -> str | None:
    """Return the broker's registration event in force after `metadata_offset`."""
    known = [
        event.event for event in timeline.brokers if event.broker == broker and event.metadata_offset <= metadata_offset
    ]
    return known[-1] if known else None
