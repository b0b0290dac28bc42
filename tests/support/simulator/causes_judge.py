"""The causes by intervals and histories, asked in memory, or of a written run record."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from analysis.causes.evidence import PartitionEvidence
from analysis.causes.from_record import cluster_evidence, partition_evidence
from analysis.causes.partition import EvidentPartition
from analysis.causes.ranges import answers_of_sends
from analysis.record.record import Record
from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import read_manifest
from simulator.compare import Answers, Key
from simulator.controller import TOPIC
from simulator.core import core_histories
from simulator.history import TrueHistory
from simulator.writing import write_record


def judge_in_memory(history: TrueHistory) -> Answers:
    """Return the causes that `analysis.causes` names, and the metadata offsets of their elections."""
    return answers_of(core_histories(history))


def judge_by_files(history: TrueHistory) -> Answers:
    """Return the same causes, of the run record of the history."""
    with tempfile.TemporaryDirectory() as folder:
        written = write_record(history, Path(folder) / "run")
        record = Record(RecordFolder(written), read_manifest(RecordFolder(written)))
        cluster = cluster_evidence(record)
        numbers = range(history.script.setup.partitions)
        return answers_of([partition_evidence(record, TOPIC, number, cluster) for number in numbers])


def answers_of(histories: Iterable[PartitionEvidence]) -> Answers:
    """Return the same causes, of the input of the causes for each partition."""
    found: dict[Key, tuple[str | None, int | None]] = {}
    for one in histories:
        partition = EvidentPartition(one)
        lost = partition.lost
        answers, places = answers_of_sends(partition, lost)
        for at, place in zip(lost.tolist(), places.tolist(), strict=True):
            answer = answers[place]
            named = None if answer.guilty is None else partition.elections.states[answer.guilty].metadata_offset
            found[one.partition, int(one.sends.value[at])] = (answer.cause, named)
    return found
