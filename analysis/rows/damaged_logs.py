"""Finds the replicas' logs that are damaged below their last known HW.

The data: evidence.json, which says for each damage from which offset on the log cannot be read, and
the HWs that the replicas answered or checkpointed (watermarks of source checkpoint). A torn tail
above the HW is what a power loss leaves, and says nothing. Compaction leaves gaps between two
segments of a compacted topic; these say nothing either.

Why it matters: a batch that cannot be read has no row in replicas. A missing row there counts as no
divergence. Without this check, a log that nobody can read would agree with every other log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from analysis.evidence.report import LogFileDamage, ReplicaLog
from analysis.record.record import Record
from analysis.rows.facts import CheckpointFacts, DamagedLog


def damaged_logs(
    record: Record, checkpoints: Sequence[CheckpointFacts], compacted: Collection[str]
) -> tuple[DamagedLog, ...]:
    """Return the replicas with damage below their HW.

    A replica without a checkpoint has the highest checkpoint of its partition. `compacted` are the
    topics that were compacted at some time of the run.
    """
    report = record.reports.replicas
    return tuple(_first_damage(report.logs, checkpoints, compacted)) if report is not None else ()


def unread_replicas(record: Record) -> tuple[str, ...]:
    """Return the replicas' logs and checkpoints that are missing or unreadable.

    What they hold is not compared.
    """
    replicas = record.reports.replicas
    checkpoints = record.reports.checkpoints
    logs = replicas.missing if replicas is not None else ()
    return (*logs, *((*checkpoints.missing, *checkpoints.problems) if checkpoints is not None else ()))


def _first_damage(
    logs: Sequence[ReplicaLog], checkpoints: Sequence[CheckpointFacts], compacted: Collection[str]
) -> Iterator[DamagedLog]:
    own = {(one.topic, one.partition, one.broker): one.high_watermark for one in checkpoints}
    for log in logs:
        if not log.damages:
            continue
        others = [hw for (topic, partition, _), hw in own.items() if (topic, partition) == (log.topic, log.partition)]
        high_watermark = own.get((log.topic, log.partition, log.broker), max(others, default=0))
        damages = [one for one in log.damages if one.damage.kind != "hole" or log.topic not in compacted]
        below = [one for one in damages if _start_offset(one, log) < high_watermark]
        if below:
            first = min(below, key=lambda one: _start_offset(one, log))
            why = (
                f"{first.file}: {first.damage.detail}, from offset {_start_offset(first, log)} on, "
                f"below its last known HW {high_watermark}"
            )
            yield DamagedLog(log.topic, log.partition, log.broker, why)


def _start_offset(damage: LogFileDamage, log: ReplicaLog) -> int:
    return damage.from_offset if damage.from_offset is not None else log.log_end_offset
