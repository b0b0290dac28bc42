"""Distinguishes records that a step deleted on purpose from lost records.

The step `delete-records` moves the log start of a partition. Its proof in steps.jsonl has the log
start before and after, the leader epoch under which the leader said both, and the times of request
and answer.

The rule: a record below that log start that was sent before the answer was *deleted on purpose*,
whatever became of the log later. It is not lost. But an earlier election may have lost it before it
could be deleted. It *surely stood* only where no election lies between its ack and the deletion:

- it was sent after the leader epoch of the deletion began, and acked before the next epoch began;
- if it was sent with acks=0 or acks=1, the partition had no earlier leader epoch. A deposed leader
  acks such records, too;
- no step before the deletion took records from the log of that epoch's leader. A leader that loses
  power, and registers again before it is fenced, keeps its epoch and uses offsets again.

Where a record was deleted on purpose and did not surely stand, the kind `lost` is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F

from analysis.reconcile.files import TableFile
from ebbtide.errors import EbbtideError
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.log_losses import BrokerLogLoss, log_losses
from ebbtide.record.log_start import LogStartMove, log_start_moves
from ebbtide.record.steps import read_steps, split_composed_steps
from ebbtide.record.tables import TABLES
from ebbtide.untrusted.parquet import read_rows

_CLOCK_NS = 1_000_000
"""Kafka writes the times of metadata records in whole milliseconds."""


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """Records deleted on purpose: those of a partition below `log_start`, until `answered_ns`.

    `began_ns`, `ended_ns`: when the leader epoch of the deletion began, and when the next one did (None: never).
    Nothing surely stood where `began_ns` is None: which epoch it was is not known, or its leader may have lost
    records. `is_first_epoch`: the partition had no epoch before.
    """

    topic: str
    partition: int
    log_start: int
    answered_ns: int
    began_ns: int | None
    ended_ns: int | None
    is_first_epoch: bool


def deletions_of(record: Path, partitions: Sequence[TableFile]) -> tuple[Deletion, ...]:
    """Return what the steps of a run deleted on purpose, by the proofs in its steps.jsonl.

    `partitions`: the files of that table. A proof of another shape deletes nothing. Raises `UsageError` when a file
    of the table is damaged.
    """
    try:
        steps = read_steps(record) or []
        losses = log_losses(split_composed_steps(steps))
    except EbbtideError:
        # A damaged steps.jsonl is reported where faults are judged; it proves nothing here.
        return ()
    proven = list(log_start_moves(steps))
    if not proven:
        return ()
    epochs = _leader_epochs(partitions, {at for at, _ in proven})
    return tuple(_deletion(at, move, epochs.get(at, []), losses) for at, move in proven)


def was_deleted(deletions: Mapping[int, Sequence[Deletion]], seen: Column | None = None) -> Column:
    """Return whether a row is of a record that was deleted on purpose; `deletions` by run.

    `seen`: a time at which the record was certainly there before the deletion; by default when it was sent.
    """
    when = F.col("sent_ns") if seen is None else seen
    return _any_of(deletions, lambda _: F.lit(True), when)


def surely_stood(deletions: Mapping[int, Sequence[Deletion]]) -> Column:
    """Return whether a row of sends is of a record that surely stood when it was deleted on purpose."""
    return _any_of(deletions, _acked_in_epoch, F.col("sent_ns"))


def _acked_in_epoch(one: Deletion) -> Column:
    if one.began_ns is None:
        return F.lit(False)
    acked = F.col("done_ns").isNotNull()
    if one.ended_ns is not None:
        acked &= F.col("done_ns") < one.ended_ns
    if one.is_first_epoch:
        return acked
    return acked & (F.col("acks") == -1) & (F.col("sent_ns") >= one.began_ns + _CLOCK_NS)


def _any_of(
    deletions: Mapping[int, Sequence[Deletion]], condition: Callable[[Deletion], Column], when: Column
) -> Column:
    """Return whether any deletion covers the row's partition, offset and time, and `condition` holds."""
    found = [
        is_below(run, one, F.col("offset")) & (when <= one.answered_ns) & condition(one)
        for run, of_run in deletions.items()
        for one in of_run
    ]
    return F.coalesce(reduce(Column.__or__, found, F.lit(False)), F.lit(False))


def is_below(run: int, one: Deletion, offset: Column) -> Column:
    """Return whether a row is of the deletion's partition, and `offset` lies below its log start."""
    in_partition = (F.col("run") == run) & (F.col("topic") == one.topic) & (F.col("partition") == one.partition)
    return in_partition & (offset < one.log_start)


class _LeaderEpoch(NamedTuple):
    number: int
    began_ns: int
    leader: int


def _leader_epochs(
    partitions: Sequence[TableFile], wanted: set[TopicPartition]
) -> Mapping[TopicPartition, list[_LeaderEpoch]]:
    """Return the leader epochs of each partition in the order of the metadata log."""
    columns = ["metadata_offset", "at_ns", "topic", "partition", "leader", "leader_epoch"]
    found: dict[TopicPartition, list[_LeaderEpoch]] = defaultdict(list)
    for file in partitions:
        rows = read_rows([file.path], "partitions", schema=TABLES["partitions"], columns=columns)
        for row in rows.sort_by("metadata_offset").to_pylist():
            at = TopicPartition(row["topic"], row["partition"])
            epochs = found[at]
            if at in wanted and (not epochs or epochs[-1].number != row["leader_epoch"]):
                epochs.append(_LeaderEpoch(row["leader_epoch"], row["at_ns"], row["leader"]))
    return found


def _deletion(
    at: TopicPartition, move: LogStartMove, epochs: Sequence[_LeaderEpoch], losses: Sequence[BrokerLogLoss]
) -> Deletion:
    here = [number for number, epoch in enumerate(epochs) if epoch.number == move.leader_epoch]
    # An epoch that begins twice is of a topic that was created again: which of the two deleted is not known.
    number = here[0] if len(here) == 1 else None
    is_sure = number is not None and not _may_lack_records(at, move, epochs[number], losses)
    later = epochs[number + 1 :] if number is not None else []
    return Deletion(
        topic=at.topic,
        partition=at.partition,
        log_start=move.new,
        answered_ns=move.answered_ns,
        began_ns=epochs[number].began_ns if number is not None and is_sure else None,
        ended_ns=later[0].began_ns if later else None,
        is_first_epoch=number == 0 and move.leader_epoch == 0,
    )


def _may_lack_records(
    at: TopicPartition, move: LogStartMove, epoch: _LeaderEpoch, losses: Sequence[BrokerLogLoss]
) -> bool:
    """Whether a step may have taken records from the log of the epoch's leader before they were deleted.

    Also a loss before the epoch counts: a disk that failed takes records until it is replaced or writable again.
    """
    return any(
        one.broker == epoch.leader and one.fired_ns <= move.answered_ns and one.costs(at.topic, at.partition)
        for one in losses
    )
