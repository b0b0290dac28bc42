"""Checks that the controllers' metadata log kept every record that a majority of the controllers had acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from analysis.evidence.wholeness import is_raw_whole
from analysis.judge.clauses.findings import Finding, Row, finding, unknown_finding
from ebbtide.errors import UsageError
from ebbtide.kraft.commits import CommittedBatch, has_batch
from ebbtide.kraft.follower import MetadataFollower
from ebbtide.logs.segments import METADATA_FOLDER
from ebbtide.record.files import QUORUM_FILE, RAW_DIR
from ebbtide.record.manifest import Manifest
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.table import LOSES_POWER, LOSES_RECORDS, TAKES_DOWN
from ebbtide.untrusted.files import is_file, read_file
from ebbtide.untrusted.values import decode_json

_DAMAGES_DISK = LOSES_RECORDS - LOSES_POWER
"""Faults after which a disk may lack what a controller had flushed."""


def metadata_log_keeps_what_it_committed(
    record: Path, manifest: Manifest, steps: Sequence[StepEntry] | None
) -> Finding:
    """No record of the metadata log is missing in the end that a majority of the controllers had acknowledged.

    A controller must flush a record before it acknowledges it (KIP-595), so a power loss is no excuse.
    By Raft's log matching, one batch stands for all before it. The final log is the most advanced log of a controller
    in raw/, which must have the logs of a majority: a minority may lack what was committed. If a step replaced or
    damaged the disk of a controller that had the batch, a missing batch is unknown.
    """
    if not is_file(record / QUORUM_FILE):
        return unknown_finding(f"there is no {QUORUM_FILE}")
    committed = _committed_batches(record)
    if not is_raw_whole(record):
        return unknown_finding(f"{RAW_DIR}/ is not as the run left it")
    controllers = manifest.topology.controllers
    logs = dict(_logs(record, controllers))
    if len(logs) <= len(controllers) // 2:
        return unknown_finding(f"{RAW_DIR}/ has no metadata logs of a majority of the controllers")
    # By epoch and then by offset, as in an election.
    controller, log = max(logs.items(), key=lambda one: (one[1].batches[-1].epoch, one[1].next_offset))
    if steps is None:
        return unknown_finding("steps.jsonl is missing: a step may have replaced a controller's disk")
    damaged = {node for step in steps if step.step in _DAMAGES_DISK for node in step.nodes}
    downs = [_down_ns(step) for step in steps if _takes_down_a_controller(step, manifest)]
    kept = log.batches
    violations: list[Row] = []
    unsure: list[Row] = []
    for batch in committed:
        if kept and batch.base_offset < kept[0].base_offset:
            unsure.append(_row(batch, controller, "a snapshot has replaced this part of the final log"))
        elif has_batch(kept, batch):
            continue
        elif damaged & set(batch.controllers):
            unsure.append(_row(batch, controller, "a step replaced or damaged the disk of a controller that had it"))
        elif log.tail is not None:
            unsure.append(_row(batch, controller, f"the final log is damaged: {log.tail}"))
        else:
            violations.append(_row(batch, controller, "it is not in the final log"))
    exercised = sum(any(batch.at_ns < down for down in downs) for batch in committed)
    return finding(exercised=exercised, violations=violations, unknown=unsure)


def _committed_batches(record: Path) -> list[CommittedBatch]:
    lines = read_file(record / QUORUM_FILE, what=QUORUM_FILE).splitlines()
    try:
        return [decode_json(line, CommittedBatch) for line in lines]
    except msgspec.DecodeError as error:
        raise UsageError(f"{QUORUM_FILE} is damaged", where=str(record / QUORUM_FILE), got=str(error)) from None


def _logs(record: Path, controllers: Sequence[int]) -> Iterator[tuple[int, MetadataFollower]]:
    """Yield each controller that has a log in raw/, and the log."""
    for controller in controllers:
        log = MetadataFollower(record / RAW_DIR / f"controller-{controller}" / METADATA_FOLDER)
        log.poll()
        if log.batches:
            yield controller, log


def _takes_down_a_controller(step: StepEntry, manifest: Manifest) -> bool:
    return step.step in TAKES_DOWN and bool(set(step.nodes) & set(manifest.topology.controllers))


def _down_ns(step: StepEntry) -> int:
    return step.effect_ns or 0


def _row(batch: CommittedBatch, controller: int, why: str) -> Row:
    return {
        "metadata_offset": batch.base_offset,
        "last_offset": batch.next_offset - 1,
        "epoch": batch.epoch,
        "controllers": list(batch.controllers),
        "at_ns": batch.at_ns,
        "final_log_of": controller,
        "why": why,
    }
