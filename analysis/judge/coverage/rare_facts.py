"""States that few schedules reach, counted: what a search by chance is guided by."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from analysis.judge.history.evidence import Evidence
from analysis.judge.history.timeline import Timeline
from ebbtide.record.files import LOGS_DIR
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.order import HEALED_BY

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
