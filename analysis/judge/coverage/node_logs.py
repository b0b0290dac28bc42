"""Counts what the nodes' own logs say, and no metadata record does.

- Why a controller rejected an AlterPartition request: the answer goes to the leader alone.
- Whether a broker that starts found the file that a clean shutdown leaves.

Facts that need a log which the record lacks are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from analysis.judge.history.log_lines import UNREADABLE, logs_of, node_lines, time_ns
from analysis.judge.history.steps import returns_from_a_stop
from analysis.record.record import Record
from analysis.record.timeline import MILLISECOND_NS
from ebbtide.coverage_fact import Fact
from ebbtide.record.rows import BrokerEvent
from ebbtide.record.steps import StepEntry
from ebbtide.record.topic_lives import deletion_times

FACTS = (
    Fact(
        "log",
        "clean-registrations",
        "registrations after a proven clean stop",
        "KIP-966, Detection of an unclean shutdown 3",
    ),
    Fact(
        "log",
        "clean-registrations-still-eligible",
        "such registrations of brokers that were in an ISR or ELR, and that stayed in one of the two",
        "KIP-966, Controller behaviors 4",
        ("clean-registrations",),
    ),
    Fact(
        "log",
        "clean-registrations-taken-as-unclean",
        "such registrations that removed the broker from ISR and ELR, or of brokers that found no clean-shutdown file",
        "KIP-966, Detection of an unclean shutdown 3",
        ("clean-registrations",),
    ),
    Fact(
        "log",
        "clean-shutdown-files-found",
        "such registrations of brokers that found the file of a clean shutdown, as their logs say; left out "
        "where the record lacks these",
        "KIP-966, Detection of an unclean shutdown 1",
        ("clean-registrations",),
    ),
    Fact(
        "log",
        "alter-partitions-rejected",
        "requests that the controllers' own logs say were rejected; left out where the record lacks these",
        "KIP-903, Controller; KIP-704, AlterPartition RPC",
    ),
    Fact(
        "log",
        "alter-partitions-rejected-for-broker-epoch",
        "of them, those whose new ISR names an earlier broker epoch",
        "KIP-903, Controller",
        ("alter-partitions-rejected",),
    ),
    Fact(
        "log",
        "alter-partitions-rejected-for-fenced-replica",
        "of them, those whose new ISR has a broker that is fenced, shutting down or not registered",
        "KIP-841",
        ("alter-partitions-rejected",),
    ),
    Fact(
        "log",
        "alter-partitions-rejected-for-partition-epoch",
        "of them, those of an earlier partition epoch",
        "KIP-497",
        ("alter-partitions-rejected",),
    ),
    Fact(
        "log",
        "alter-partitions-rejected-for-recovering",
        "of them, those with an ISR of several while the leader recovers",
        "KIP-704, AlterPartition RPC",
        ("alter-partitions-rejected",),
    ),
)

_REJECTED = b"Rejecting AlterPartition request"
"""`ReplicationControlManager` logs this for each of its reasons (3.4.1, 3.9.1, 4.3.1, 4.4.0)."""
_REASONS = {
    "broker-epoch": re.compile(rb"ineligible replicas .*broker epoch mismatch"),
    "fenced-replica": re.compile(rb"ineligible replicas .*\((fenced|shutting down|not registered)\)"),
    "partition-epoch": re.compile(rb"because the current partition epoch is -?\d+, not "),
    "recovering": re.compile(rb"while the leader was still recovering"),
}
"""The words after `alter-partitions-rejected-for-`, and the log lines that they stand for. `(...)` is
`IneligibleReplica.toString`; 3.4.1 compares no broker epochs."""
_LOADED = re.compile(rb"^(\S+) .*LogManager.* since (no )?clean shutdown file was found")
"""`LogManager.loadLogs`, once a log directory with logs in it (3.4.1, 3.9.1, 4.3.1)."""


def count(record: Record) -> Counter[str]:
    """Count the facts."""
    facts, steps = rejection_facts(record, record.manifest.topology.controllers), record.split_steps
    if steps is not None and "brokers" not in record.timeline.missing:
        facts.update(clean_stop_facts(record, steps))
    return facts


def rejection_facts(record: Record, controllers: Sequence[int]) -> Counter[str]:
    """Count the rejected AlterPartition requests, by reason; empty unless every log is whole.

    The leader repeats a request that was rejected, so a count is of requests, not of causes.
    """
    facts = Counter(
        {"alter-partitions-rejected": 0, **{f"alter-partitions-rejected-for-{reason}": 0 for reason in _REASONS}}
    )
    logs = logs_of(record, "controller", controllers)
    try:
        for line in (line for line in node_lines(record, "controller", controllers) if _REJECTED in line):
            facts["alter-partitions-rejected"] += 1
            for reason, pattern in _REASONS.items():
                facts[f"alter-partitions-rejected-for-{reason}"] += pattern.search(line) is not None
    except UNREADABLE:
        return Counter()
    return facts if logs else Counter()


def clean_stop_facts(record: Record, steps: Sequence[StepEntry]) -> Counter[str]:
    """Count the brokers that returned from a clean stop, and as what they were taken.

    No metadata record says that a shutdown was clean. Two things show it: the broker finds the file
    that a clean shutdown leaves, and its registration leaves it in the ISR or ELR of each partition
    that it was in (KIP-966, Detection of an unclean shutdown). A broker that has no replica logs
    nothing, and counts as neither.
    """
    timeline = record.timeline
    facts = Counter(
        {"clean-registrations": 0, "clean-registrations-still-eligible": 0, "clean-registrations-taken-as-unclean": 0}
    )
    files: int | None = 0
    deleted = deletion_times(steps)
    for event, stop in returns_from_a_stop(steps, timeline.brokers):
        facts["clean-registrations"] += 1
        kept, lost = _membership(record, event, deleted)
        facts["clean-registrations-still-eligible"] += kept > 0 and not lost
        started = _start_after(record, event.broker, stop.effect_ns or event.at_ns)
        facts["clean-registrations-taken-as-unclean"] += lost > 0 or started == "unclean"
        files = None if started is None or files is None else files + (started == "clean")
    return facts if files is None else Counter({**facts, "clean-shutdown-files-found": files})


def _membership(record: Record, event: BrokerEvent, deleted: Mapping[str, int]) -> tuple[int, int]:
    """Return in how many partitions a registration left the broker eligible, and in how many not.

    Counted are the partitions with the broker in ISR or ELR before the batch of the registration. A
    broker epoch is the offset at which that batch begins.
    """
    kept = lost = 0
    for topic, partition in record.timeline.partitions:
        before = record.timeline.state_at(topic, partition, min(event.broker_epoch, event.metadata_offset) - 1)
        after = record.timeline.state_at(topic, partition, event.metadata_offset)
        gone = deleted.get(topic, event.at_ns) < event.at_ns
        if before is None or after is None or gone or event.broker not in {*before.isr, *before.elr}:
            continue
        stayed = event.broker in {*after.isr, *after.elr}
        kept, lost = kept + stayed, lost + (not stayed)
    return kept, lost


def _start_after(record: Record, broker: int, since_ns: int) -> Literal["clean", "unclean", "no-logs"] | None:
    """Return as what the broker's first start after a stop took that stop.

    It says so only if it found logs. None: the record lacks the broker's own log.
    """
    logs, clocks = logs_of(record, "broker", (broker,)), record.clocks
    try:
        for line in node_lines(record, "broker", (broker,)):
            match = _LOADED.match(line)
            if match is not None and time_ns(match[1], clocks) >= since_ns - MILLISECOND_NS:
                return "unclean" if match[2] else "clean"
    except UNREADABLE:
        return None
    return "no-logs" if logs else None
