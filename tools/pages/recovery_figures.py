"""The figures of the unclean recovery, kept in bench/results/recovered.json: counts and ranges of all runs so far.

A new record widens the ranges of its release and runtime. A record counts once, by its run id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import StepEntry, read_steps
from ebbtide.record.verdict import Unavailability, Verdict, read_judgement
from ebbtide.scenario.steps.recovery import RecoverStep, ReplicaReply

SIDE_BY_SIDE = "unclean-recovery"
LATER_EPOCH = "unclean-recovery-later-epoch"

Range = tuple[float, float]
"""The least and the greatest value."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of one topic on one release and runtime; times in seconds, None: not known or none."""

    target: str
    topic: str
    runs: int
    lost: Range
    oldest_s: Range | None = None
    no_leader_s: Range | None = None
    no_ack_s: Range | None = None
    causes: tuple[str, ...] = ()


class LaterEpochRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the scenario in which a later epoch wins."""

    target: str
    elected: str
    ends: str
    lost: int
    outcome: str


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All of docs/recovered.json; `records` are the ids of the runs that were added."""

    rows: tuple[Row, ...] = ()
    later: tuple[LaterEpochRun, ...] = ()
    records: tuple[str, ...] = ()


def read_figures(path: Path) -> Figures:
    """Return the figures in a file; none if there is no file."""
    return msgspec.json.decode(path.read_bytes(), type=Figures) if path.is_file() else Figures()


def write_figures(path: Path, figures: Figures) -> None:
    """Write the figures, in the order of releases and runtimes."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n")


def with_record(figures: Figures, record: Path, topics: Sequence[str]) -> Figures:
    """Add the figures of a judged record, if it counts and was not added before.

    Raises `UsageError` for a record that has not been judged.
    """
    manifest, verdict = read_manifest(RecordFolder(record)), read_judgement(RecordFolder(record))
    target = f"{manifest.kafka}, {manifest.runtime}"
    if manifest.run_id in figures.records:
        return figures
    records = (*figures.records, manifest.run_id)
    if manifest.scenario == SIDE_BY_SIDE and verdict.outcome != "inconclusive":
        rows = {(row.target, row.topic): row for row in figures.rows}
        for topic in topics:
            rows[target, topic] = _with_wider_ranges(rows.get((target, topic)), _row(verdict, target, topic))
        order = {topic: at for at, topic in enumerate(topics)}
        ordered = sorted(rows.values(), key=lambda row: (row.target, order.get(row.topic, len(order))))
        return msgspec.structs.replace(figures, rows=tuple(ordered), records=records)
    recoveries = [
        one for one in read_steps(RecordFolder(record)) or () if one.step == "recover" and one.effect_ns is not None
    ]
    if manifest.scenario == LATER_EPOCH and recoveries:
        later = sorted((*figures.later, _later(verdict, target, recoveries[-1])), key=lambda one: one.target)
        return msgspec.structs.replace(figures, later=tuple(later), records=records)
    return figures


def _row(verdict: Verdict, target: str, topic: str) -> Row:
    lost = [one for one in verdict.losses if one.topic == topic and one.committed]
    ages = [one.oldest_s for one in lost if one.oldest_s is not None]
    waits = next((one for one in verdict.unavailable if one.topic == topic), Unavailability(topic=topic, partition=0))
    return Row(
        target=target,
        topic=topic,
        runs=1,
        lost=_range_of(sum(one.count for one in lost)) or (0, 0),
        oldest_s=_range_of(max(ages, default=None)),
        no_leader_s=_range_of(waits.no_leader.longest_s if waits.no_leader is not None else None),
        no_ack_s=_range_of(waits.no_ack.longest_s if waits.no_ack is not None else None),
        causes=tuple(sorted({one.cause for one in lost})),
    )


def _range_of(value: float | None) -> Range | None:
    return None if value is None else (value, value)


def _with_wider_ranges(known: Row | None, new: Row) -> Row:
    if known is None:
        return new
    return Row(
        target=new.target,
        topic=new.topic,
        runs=known.runs + new.runs,
        lost=_hull(known.lost, new.lost) or (0, 0),
        oldest_s=_hull(known.oldest_s, new.oldest_s),
        no_leader_s=_hull(known.no_leader_s, new.no_leader_s),
        no_ack_s=_hull(known.no_ack_s, new.no_ack_s),
        causes=tuple(sorted({*known.causes, *new.causes})),
    )


def _hull(one: Range | None, other: Range | None) -> Range | None:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def _later(verdict: Verdict, target: str, recovery: StepEntry) -> LaterEpochRun:
    proof = recovery.figures(RecoverStep.Proof)
    return LaterEpochRun(
        target=target,
        elected=f"broker {'-' if proof.chosen is None else proof.chosen}",
        ends=_ends(proof.replies),
        lost=sum(one.count for one in verdict.losses if one.committed),
        outcome=verdict.outcome,
    )


def _ends(replies: Mapping[int, ReplicaReply] | None) -> str:
    if replies is None:
        return "-"
    return "; ".join(
        "no answer" if one.last_epoch is None else f"{one.last_epoch} and {one.log_end_offset or 0:,}"
        for _, one in sorted(replies.items())
    )
