"""The causes by intervals and histories, asked in memory, or of a written run record."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from analysis.causes.answer import CauseAnswer
from analysis.causes.evidence import PartitionEvidence
from analysis.causes.from_record import cluster_evidence, partition_evidence
from analysis.causes.partition import EvidentPartition
from analysis.causes.ranges import answers_of_sends
from analysis.judge.causes.attribution import answer_of_offset
from analysis.judge.history.evidence import LostOffset
from analysis.record.record import Record
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from simulator.compare import Answers, Judged
from simulator.controller import TOPIC
from simulator.core import core_histories
from simulator.history import LOST, VANISHED, Key, LostRecord, TrueHistory
from simulator.writing import write_record


def judge_in_memory(history: TrueHistory) -> Answers:
    """Return the causes that `analysis.causes` names, and the metadata offsets of their elections."""
    return answers_of(history, core_histories(history))


def judge_by_files(history: TrueHistory) -> Answers:
    """Return the same causes, of the run record of the history."""
    with tempfile.TemporaryDirectory() as folder:
        written = write_record(history, Path(folder) / "run")
        record = Record(RecordFolder(written), read_manifest(RecordFolder(written)))
        cluster = cluster_evidence(record)
        numbers = range(history.script.setup.partitions)
        return answers_of(history, [partition_evidence(record, TOPIC, number, cluster) for number in numbers])


def answers_of(history: TrueHistory, inputs: Iterable[PartitionEvidence], *, most: int | None = None) -> Answers:
    """Return the same causes, of the input of the causes for each partition; `most`: of about so many lost sends."""
    found: dict[Key, Judged] = {}
    for one in inputs:
        partition = EvidentPartition(one)
        lost = partition.lost if most is None else partition.lost[:: 1 + len(partition.lost) // most]
        mine = [gone for gone in history.lost if (gone.kind, gone.partition) == (LOST, one.partition)]
        shown = np.isin(one.sends.value[lost], [gone.value for gone in mine if is_shown_committed(history, gone)])
        for committed in (False, True):
            alike = lost[shown == committed]
            answers, places = answers_of_sends(partition, alike, committed=committed)
            judged = [_judged(partition, answer) for answer in answers]
            for at, place in zip(alike.tolist(), places.tolist(), strict=True):
                found[LOST, one.partition, int(one.sends.value[at])] = judged[place]
        for gone in history.lost:
            if gone.partition == one.partition and gone.kind != LOST:
                found[gone.key] = _judged(partition, answer_of_offset(partition, _offset_of(gone)))
    return found


def is_shown_committed(history: TrueHistory, lost: LostRecord) -> bool:
    """Return whether a lost record is committed for the reconciliation: by acks=all, a consumer, or an HW."""
    passed = any(
        row["leader_epoch"] == lost.epoch and row["high_watermark"] > lost.offset
        for row in history.tables["watermarks"]
        if row["partition"] == lost.partition
    )
    return lost.acks == -1 or lost.read or passed


def _offset_of(gone: LostRecord) -> LostOffset:
    """Return what the judge asks about a record that vanished, or about an HW that went back."""
    return LostOffset(
        topic=TOPIC,
        partition=gone.partition,
        offset=gone.offset,
        since_ns=gone.done_ns,
        since_epoch=gone.epoch,
        until_epoch=gone.until,
        exact=gone.kind == VANISHED,
    )


def _judged(partition: EvidentPartition, answer: CauseAnswer) -> Judged:
    named = None if answer.guilty is None else partition.elections.states[answer.guilty].metadata_offset
    return Judged(answer.cause, named, answer.is_allowed)
