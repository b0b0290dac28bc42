"""Counts the states of the metadata timeline that known bugs are about.

Elections are counted elsewhere (`counting`). Each fact counts cases, so that a prediction can ask
for some, or for none. `rare_facts` are states that few schedules reach: they guide random
schedules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from analysis.record.record import Record
from analysis.record.timeline import Timeline
from ebbtide.coverage_fact import Fact
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.table import HEALED_BY

FACTS = (
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

_COUNTED = (
    "controller-failovers",
    "elections-of-a-fenced-broker",
    "elections-while-recovering",
    "isr-left-again",
    "isr-shrinks",
    "leader-epoch-raised-by-an-isr-shrink",
    "leaderless-with-a-live-replica",
    "reassignments-cancelled-below-min-isr",
    "reassignments-completed",
    "reassignments-completed-below-min-isr",
    "reassignments-completed-without-a-replica",
    "reassignments-held-back",
)


def partition_facts(record: Record) -> Counter[str]:
    """Count the facts of `_COUNTED`; a fact that never occurred counts 0."""
    facts: Counter[str] = Counter(dict.fromkeys(_COUNTED, 0))
    timeline = record.timeline
    facts["controller-failovers"] = _count_failovers(timeline)
    facts["leaderless-with-a-live-replica"] = sum(1 for _ in _leaderless_with_a_live_replica(timeline))
    for before, after in timeline.pairs():
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
    return facts


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


def _count_failovers(timeline: Timeline) -> int:
    """Count the controllers that wrote a partition state after another one had."""
    return max(len({state.metadata_epoch for states in timeline.partitions.values() for state in states}) - 1, 0)


def rare_facts(record: Record, steps: Sequence[StepEntry] | None) -> Iterator[tuple[str, int]]:
    """Yield the facts that few schedules reach, each with its count.

    - `elr-of-two`: the ELR grew to two members or more.
    - `faults-while-recovering`: faults that hit a RECOVERING partition.
    """
    pairs = record.timeline.pairs()
    yield "elr-of-two", sum(len(after.elr) >= 2 > len(before.elr) for before, after in pairs)
    spans = list(_recovering_spans(record.timeline))
    faults = [step.effect_ns for step in steps or () if step.step in HEALED_BY and step.effect_ns is not None]
    yield "faults-while-recovering", sum(any(start <= at < end for start, end in spans) for at in faults)


def _recovering_spans(timeline: Timeline) -> Iterator[tuple[int, float]]:
    """Yield (start, end) in ns of each stretch in which a partition was RECOVERING.

    The end is infinite if the partition still is RECOVERING.
    """
    for states in timeline.partitions.values():
        began: PartitionState | None = None
        for state in states:
            if state.recovering:
                began = began or state
            elif began is not None:
                yield began.at_ns, state.at_ns
                began = None
        if began is not None:
            yield began.at_ns, float("inf")
