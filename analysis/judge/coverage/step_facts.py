"""Counts the steps that took effect, by kind, and what they did."""

from __future__ import annotations

from collections import Counter

from analysis.record.record import Record
from ebbtide.coverage_fact import Fact
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.admin import AddPartitionsStep, AddVoterStep, RemoveVoterStep, VoterStep
from ebbtide.scenario.steps.network import LimitBandwidthStep, PartitionStep
from ebbtide.scenario.steps.process import StartStep
from ebbtide.scenario.steps.step import StepProof
from ebbtide.scenario.steps.table import KINDS
from ebbtide.scenario.steps.wire import DuplicateRequestStep

FACTS = (
    *(
        Fact("steps", one.counted[0], f"{one.counted[1]}, with proof")
        for one in KINDS.values()
        if one.counted is not None
    ),
    Fact("log", "voters-added", "controllers that a step made voters of a dynamic quorum", "KIP-853"),
    Fact("log", "voters-removed", "voters of a dynamic quorum that a step made observers", "KIP-853"),
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


def count(record: Record) -> Counter[str]:
    """Count the facts; without steps, none took effect."""
    facts: Counter[str] = Counter()
    software = record.protocol.software
    took_effect = [step for step in record.split_steps or () if step.effect_ns is not None]
    for kind, one in KINDS.items():
        if one.counted is not None:
            facts[one.counted[0]] = sum(max(1, len(step.nodes)) for step in took_effect if step.step == kind)
    facts["upgrades"] = sum(step.figures(StartStep.Proof).to is not None for step in took_effect)
    facts["upgrades-refused"] = sum(step.figures(StartStep.Proof).refused is not None for step in took_effect)
    mixed = (software.is_mixed(after.at_ns) for _, after in record.timeline.pairs())
    facts["transitions-of-mixed-releases"] = sum(mixed)
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
    return facts


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
