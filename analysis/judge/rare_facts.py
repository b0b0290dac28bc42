"""States that few schedules reach, counted: what a search by chance is guided by."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

from analysis.judge.evidence import Evidence
from analysis.judge.timeline import PartitionState, Timeline
from harness.record.files import LOGS_DIR
from harness.record.steps import StepEntry
from harness.scenario.order import HEALED_BY

_REJECTED = b"Rejecting AlterPartition request"
"""What `ReplicationControlManager` logs, at INFO, for each reason it has (3.9.1, 4.3.1)."""


def rare_facts(evidence: Evidence, steps: Sequence[StepEntry] | None) -> Iterator[tuple[str, int]]:
    """`elr-of-two`: the ELR grew to two members or more; `faults-while-recovering`: faults that fell on a RECOVERING
    partition; `alter-partitions-rejected`, where the controllers' logs are there."""
    pairs = evidence.timeline.pairs()
    yield "elr-of-two", sum(len(after.elr) >= 2 > len(before.elr) for before, after in pairs)
    spans = list(_recovering(evidence.timeline))
    faults = [step.effect_ns for step in steps or () if step.step in HEALED_BY and step.effect_ns is not None]
    yield "faults-while-recovering", sum(any(start <= at < end for start, end in spans) for at in faults)
    logs = sorted((evidence.record / LOGS_DIR).glob("controller-*.log*"))
    if logs:
        yield "alter-partitions-rejected", sum(map(_rejected, logs))


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


def _rejected(log: Path) -> int:
    """A log that is cut short is counted as far as it goes."""
    count = 0
    with gzip.open(log) if log.suffix == ".gz" else log.open("rb") as lines:
        try:
            for line in lines:
                count += _REJECTED in line
        except (EOFError, gzip.BadGzipFile):
            return count
    return count
