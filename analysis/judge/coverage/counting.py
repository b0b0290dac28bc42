"""Counts what a run exercised.

A verdict on a state that never occurred says nothing.
"""

from __future__ import annotations

from collections import Counter

from analysis.judge.coverage.deletion_facts import count_expired_records, deletion_facts
from analysis.judge.coverage.node_logs import clean_stop_facts, rejection_facts
from analysis.judge.coverage.partition_facts import partition_facts, rare_facts
from analysis.judge.coverage.topic_facts import topic_facts
from analysis.judge.coverage.transaction_facts import MarkerEpochs
from analysis.judge.coverage.wire_facts import wire_facts
from analysis.judge.coverage.workload_facts import workload_facts
from analysis.judge.history.returns import unclean_registrations
from analysis.record.record import Record
from ebbtide.coverage_fact import Fact
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.admin import AddPartitionsStep, AddVoterStep, RemoveVoterStep, VoterStep
from ebbtide.scenario.steps.network import LimitBandwidthStep, PartitionStep
from ebbtide.scenario.steps.process import StartStep
from ebbtide.scenario.steps.proof import StepProof
from ebbtide.scenario.steps.table import KINDS
from ebbtide.scenario.steps.wire import DuplicateRequestStep

FACTS = (
    *(
        Fact("steps", one.counted[0], f"{one.counted[1]}, with proof")
        for one in KINDS.values()
        if one.counted is not None
    ),
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
    Fact("log", "voters-added", "controllers that a step made voters of a dynamic quorum", "KIP-853"),
    Fact("log", "voters-removed", "voters of a dynamic quorum that a step made observers", "KIP-853"),
    Fact("log", "brokers-fenced", "records that fence a broker", "KIP-966, Controller behaviors 2"),
    Fact(
        "log",
        "unclean-registrations",
        "registrations after a proven kill or power loss",
        "KIP-966, Controller behaviors 4",
    ),
    Fact("steps", "upgrades", "nodes that a step stopped and started on another release, with proof"),
    Fact("steps", "upgrades-refused", "nodes that refused to run on another release, as the step expected"),
    Fact("steps", "transitions-of-mixed-releases", "partition records that came while nodes ran different releases"),
    Fact("steps", "lost-bytes", "bytes that were lost in power losses"),
    Fact("steps", "partitions-cut", "network partitions, with proof"),
    Fact("steps", "one-way-cuts", "network partitions that left each pair one direction"),
    Fact("steps", "links-limited", "bandwidth limits, with proof"),
    Fact("steps", "requests-duplicated", "requests that were answered twice"),
    Fact("steps", "partitions-added", "partitions that steps added to topics, with proof"),
    Fact("steps", "requests-refused", "administrative steps that met the error which they expected"),
)

_ROADS = {
    "elr": "elections-from-elr",
    "last-known-leader": "elections-of-last-known-leader",
    "unclean": "unclean-elections",
}
_OF_BROKERS = (
    "brokers-fenced",
    "elections-of-a-fenced-broker",
    "leaderless-with-a-live-replica",
    "unclean-registrations",
)
"""Facts that need the registrations of brokers; unknown without them."""


def coverage(record: Record) -> dict[str, int]:
    """Count how often each fact occurred.

    A fact that never occurred is listed with 0; a fact that is not known is left out.
    """
    facts: Counter[str] = Counter()
    timeline, rules, steps = record.timeline, record.protocol, record.split_steps
    moved = [one for one in record.elections if one.changes_leader]
    facts["elections"] = len(moved)
    for road, fact in _ROADS.items():
        facts[fact] = sum(one.road == road for one in moved)
    for fact in ("leaderless", "isr-below-min", "elr-non-empty", "recovering", "isr-empty"):
        facts[fact] = 0
    for before, after in timeline.pairs():
        facts["leaderless"] += after.leader < 0 <= before.leader
        facts["isr-empty"] += bool(before.isr) and not after.isr
        facts["elr-non-empty"] += bool(after.elr) and not before.elr
        facts["recovering"] += after.recovering and not before.recovering
        min_isr = rules.leader_min_isr(after, after.metadata_offset)
        facts["isr-below-min"] += min_isr is not None and len(after.isr) < min_isr <= len(before.isr)
    facts.update(partition_facts(record))
    facts.update(wire_facts(record))
    facts["unclean-registrations"] = sum(1 for _ in unclean_registrations(steps or (), timeline.brokers))
    facts["brokers-fenced"] = sum(event.event == "fenced" for event in timeline.brokers)
    took_effect = [step for step in steps or () if step.effect_ns is not None]
    for kind, one in KINDS.items():
        if one.counted is not None:
            fact, _ = one.counted
            facts[fact] = sum(max(1, len(step.nodes)) for step in took_effect if step.step == kind)
    facts["upgrades"] = sum(step.figures(StartStep.Proof).to is not None for step in took_effect)
    facts["upgrades-refused"] = sum(step.figures(StartStep.Proof).refused is not None for step in took_effect)
    facts["transitions-of-mixed-releases"] = sum(rules.software.is_mixed(after.at_ns) for _, after in timeline.pairs())
    facts["requests-refused"] = sum(step.asked.expect_error is not None for step in took_effect)
    facts["partitions-cut"] = sum(step.is_a(PartitionStep) for step in took_effect)
    facts["one-way-cuts"] = sum(_is_one_way(step) for step in took_effect)
    facts["links-limited"] = sum(step.is_a(LimitBandwidthStep) for step in took_effect)
    facts["partitions-added"] = sum(_added_partitions(step) for step in took_effect)
    facts["voters-added"] = sum(_changed_voters(step, AddVoterStep) for step in took_effect)
    facts["voters-removed"] = sum(_changed_voters(step, RemoveVoterStep) for step in took_effect)
    twice = [step.figures(DuplicateRequestStep.Proof).answered_twice for step in took_effect]
    facts["requests-duplicated"] = sum(filter(None, twice))
    facts["lost-bytes"] = sum(step.figures(StepProof).lost_bytes or 0 for step in took_effect)
    if "brokers" in timeline.missing:
        for fact in _OF_BROKERS:
            del facts[fact]
    elif steps is not None:
        facts.update(clean_stop_facts(record, steps))
    rejections = rejection_facts(record, record.manifest.topology.controllers)
    facts.update(deletion_facts(record, steps))
    facts["expired-records"] = count_expired_records(record, steps)
    facts.update(topic_facts(record, steps))
    facts.update(record.seen(MarkerEpochs))
    return dict(facts) | dict(rare_facts(record, steps)) | dict(rejections) | dict(workload_facts(record))


def _added_partitions(step: StepEntry) -> int:
    record = step.figures(AddPartitionsStep.Proof).record if step.is_a(AddPartitionsStep) else None
    return 0 if record is None else record.added or 0


def _changed_voters(step: StepEntry, kind: type[VoterStep]) -> bool:
    """Return whether a step of this kind changed the voters; one that expects a refusal does not."""
    return step.is_a(kind) and step.figures(VoterStep.Proof).record is not None


def _is_one_way(step: StepEntry) -> bool:
    """Return whether a cut parts every pair of nodes in one direction only."""
    links = step.figures(PartitionStep.Proof).cuts
    return step.is_a(PartitionStep) and links is not None and links.is_one_way
