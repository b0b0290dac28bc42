"""No record of the metadata log is missing in the end that a majority of the voters had acknowledged.

All controllers of a static quorum vote. In a dynamic quorum, the newest record of voters before a batch says who
voted on it, and quorum.jsonl lists only what a majority of those acknowledged.

A controller must flush a record before it acknowledges it (KIP-595), so a power loss is no excuse.
By Raft's log matching, one batch stands for all before it. The final log is the most advanced log of a controller
in raw/, which must have the logs of a majority of the voters that this log names last: a minority may lack what
was committed. If a step replaced or damaged the disk of a controller that had the batch, a missing batch is
unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding, unknown_finding
from analysis.record.record import Record
from analysis.record.whole import is_raw_whole
from ebbtide.errors import UsageError
from ebbtide.kraft.commits import CommittedBatch, VoterSet, has_batch, voter_sets_in
from ebbtide.kraft.follower import MetadataFollower
from ebbtide.logs.checkpoint_file import directory_id_in
from ebbtide.logs.segments import METADATA_FOLDER
from ebbtide.record.files import QUORUM_FILE, RAW_DIR
from ebbtide.scenario.steps.table import LOSES_POWER, LOSES_RECORDS, TAKES_DOWN
from ebbtide.untrusted.values import decode_json

_DAMAGES_DISK = LOSES_RECORDS - LOSES_POWER
"""Faults after which a disk may lack what a controller had flushed."""


def _check(judged: Judged) -> Finding:
    record, steps = judged.record, judged.record.split_steps
    if not record.folder.has(QUORUM_FILE):
        return unknown_finding(f"there is no {QUORUM_FILE}")
    committed = _committed_batches(record)
    if not is_raw_whole(record):
        return unknown_finding(f"{RAW_DIR}/ is not as the run left it")
    controllers = record.manifest.topology.controllers
    logs = list(_logs(record, controllers))
    # By epoch and then by offset, as in an election.
    newest = max(logs, key=lambda one: (one[1].batches[-1].epoch, one[1].next_offset), default=None)
    if newest is None or not _has_majority(record, [one for one, *_ in logs], controllers, newest[2]):
        return unknown_finding(f"{RAW_DIR}/ has no metadata logs of a majority of the controllers that vote")
    controller, log, _ = newest
    if steps is None:
        return unknown_finding("steps.jsonl is missing: a step may have replaced a controller's disk")
    damaged = {node for step in steps if step.step in _DAMAGES_DISK for node in step.nodes}
    taking_down = [step for step in steps if step.step in TAKES_DOWN]
    downs = [step.effect_ns or 0 for step in taking_down if not set(step.nodes).isdisjoint(controllers)]
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


def _committed_batches(record: Record) -> list[CommittedBatch]:
    lines = record.folder.bytes(QUORUM_FILE).splitlines()
    try:
        return [decode_json(line, CommittedBatch) for line in lines]
    except msgspec.DecodeError as error:
        raise UsageError(f"{QUORUM_FILE} is damaged", where=str(record.folder / QUORUM_FILE), got=str(error)) from None


def _logs(record: Record, controllers: Sequence[int]) -> Iterator[tuple[int, MetadataFollower, Sequence[VoterSet]]]:
    """Yield each controller that has a log in raw/, the log, and the voters that its records name."""
    for controller in controllers:
        log = MetadataFollower(_folder(record, controller) / METADATA_FOLDER)
        sets = voter_sets_in(log.poll())
        if log.batches:
            yield controller, log, sets


def _has_majority(record: Record, logs: Collection[int], controllers: Sequence[int], sets: Sequence[VoterSet]) -> bool:
    """Whether the logs are those of a majority of the newest voters; without such a record all controllers vote."""
    if not sets:
        return len(logs) > len(controllers) // 2
    # A disk whose id is not known proves no vote.
    return sets[-1].majority_of({node: directory_id_in(_folder(record, node)) or "" for node in logs}) is not None


def _folder(record: Record, controller: int) -> Path:
    return record.folder / RAW_DIR / f"controller-{controller}"


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


RULE = Clause(
    kip="KIP-595",
    check=_check,
    reads_timeline=False,
    parts=("quorum",),
    needed="never",
    unknown_when=(
        "there is no `quorum.jsonl`, or `raw/` is not as the run left it or lacks the logs of a majority "
        "of the controllers that vote; or a batch is missing after a step that replaced or damaged the "
        "disk of a controller which had it ([metadata log](#the-metadata-log))"
    ),
    example="""
        Two of three controllers had acknowledged 10 batches. The final logs have 4.
        quorum: acknowledged=10 end=4
        gives: 
    """,
)
