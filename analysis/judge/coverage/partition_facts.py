"""What the metadata timeline exercised besides elections by their road: the states that a known bug is about.

Each fact counts cases, so that a prediction can ask for some, or for none. `rare_facts` are the states that few
schedules reach: a search by chance is guided by them.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from analysis.judge.history.evidence import Evidence
from analysis.judge.history.timeline import Timeline
from ebbtide.record.files import LOGS_DIR
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.table import HEALED_BY

FACTS = (
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


def partition_facts(evidence: Evidence) -> Counter[str]:
    """The facts of `FACTS`; one that never came about counts 0."""
    facts: Counter[str] = Counter(dict.fromkeys(FACTS, 0))
    timeline = evidence.timeline
    facts["controller-failovers"] = _failovers(timeline)
    facts["leaderless-with-a-live-replica"] = sum(1 for _ in _vacant_beside_a_live_replica(timeline))
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
            _ended(evidence, before, after, facts)
    facts["isr-left-again"] = sum(_left_again(states) for states in timeline.partitions.values())
    facts["reassignments-held-back"] = sum(1 for _ in _held_back(timeline))
    return facts


def _ended(evidence: Evidence, before: PartitionState, after: PartitionState, facts: Counter[str]) -> None:
    """A reassignment that ended: with its target replicas it is completed, otherwise cancelled."""
    configured = evidence.rules.configured_min_isr(after.topic, after.metadata_offset)
    below = configured is not None and len(after.isr) < min(configured, len(after.replicas))
    if set(after.replicas) == set(before.replicas) - set(before.removing):
        facts["reassignments-completed"] += 1
        facts["reassignments-completed-without-a-replica"] += not set(after.replicas) <= set(after.isr)
        facts["reassignments-completed-below-min-isr"] += below
    else:
        facts["reassignments-cancelled-below-min-isr"] += below


def _left_again(states: Sequence[PartitionState]) -> int:
    """How often a replica left the ISR that had joined it under the same leader epoch."""
    count, joined = 0, set[int]()
    for before, after in pairwise(states):
        if after.leader_epoch != before.leader_epoch:
            joined = set()
            continue
        left = joined - set(after.isr)
        count += len(left)
        joined = joined - left | (set(after.isr) - set(before.isr))
    return count


def _held_back(timeline: Timeline) -> Iterator[PartitionState]:
    """Reassignments that waited although each replica that they add was in the ISR: the state in which they did."""
    for before, after in timeline.pairs():
        if after.adding and set(after.adding) <= set(after.isr) and not set(before.adding) <= set(before.isr):
            yield after


def _vacant_beside_a_live_replica(timeline: Timeline) -> Iterator[PartitionState]:
    """States without a leader during which a replica was unfenced.

    One that comes alive with the very record batch that elects it does not count: the batch bears one time.
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
    """The broker's registration event in force once the record at `metadata_offset` was applied."""
    known = [
        event.event for event in timeline.brokers if event.broker == broker and event.metadata_offset <= metadata_offset
    ]
    return known[-1] if known else None


def _failovers(timeline: Timeline) -> int:
    """Controllers that wrote a partition state after another one had."""
    return max(len({state.metadata_epoch for states in timeline.partitions.values() for state in states}) - 1, 0)


_REJECTED = b"Rejecting AlterPartition request"
"""What `ReplicationControlManager` logs, at INFO, for each reason it has (3.9.1, 4.3.1, 4.4.0)."""


def rare_facts(
    evidence: Evidence, steps: Sequence[StepEntry] | None, controllers: Sequence[int]
) -> Iterator[tuple[str, int]]:
    """`elr-of-two`: the ELR grew to two members or more; `faults-while-recovering`: faults that fell on a RECOVERING
    partition; `alter-partitions-rejected`, where the logs of all `controllers` are there and whole."""
    pairs = evidence.timeline.pairs()
    yield "elr-of-two", sum(len(after.elr) >= 2 > len(before.elr) for before, after in pairs)
    spans = list(_recovering(evidence.timeline))
    faults = [step.effect_ns for step in steps or () if step.step in HEALED_BY and step.effect_ns is not None]
    yield "faults-while-recovering", sum(any(start <= at < end for start, end in spans) for at in faults)
    counts = [_rejected(log) for log in _logs(evidence.record, controllers)]
    if counts and None not in counts:
        yield "alter-partitions-rejected", sum(filter(None, counts))


def _recovering(timeline: Timeline) -> Iterator[tuple[int, float]]:
    """From when until when a partition was RECOVERING; one that still is has no end."""
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


def _logs(record: Path, controllers: Sequence[int]) -> list[Path]:
    """The logs of the controllers; none where that of one is missing."""
    logs = sorted((record / LOGS_DIR).glob("controller-*.log*"))
    there = {log.name.partition(".")[0] for log in logs}
    return logs if all(f"controller-{node}" in there for node in controllers) else []


def _rejected(log: Path) -> int | None:
    """None: the log is damaged or cut short, so that more may have stood in it."""
    try:
        with gzip.open(log) if log.suffix == ".gz" else log.open("rb") as lines:
            return sum(_REJECTED in line for line in lines)
    except (EOFError, OSError, zlib.error):
        return None
