"""Holds what is known of a run before any record is looked at.

That is what the manifest says, and facts by partition: never as many as there are records.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from analysis.record.whole import OF_LOSSES, Gap
from analysis.rows.deletions import Deletion, why_unsure
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.manifest import FinalOffsets, FinalTransactions
from ebbtide.record.topic_lives import is_deleted
from ebbtide.record.verdict import Counts

_LISTED_MAX = 5


class SendFacts(msgspec.Struct, frozen=True):
    """Sends of one status: `placed` of them have an offset.

    `in_txn` belong to a transaction. `first_offset` is the lowest of the offsets that no
    step deleted on purpose, null where there is none. `unsure` were deleted on purpose and may have been lost before
    (the module deletions). `unplaced` were acked by a broker (not with acks=0) and have no offset.
    """

    topic: str
    partition: int
    status: str
    rows: int
    placed: int
    in_txn: int = 0
    unplaced: int = 0
    first_offset: int | None = None
    unsure: int = 0


class PollFacts(msgspec.Struct, frozen=True):
    """Polls of one partition at one isolation, by the final consumer or by the others.

    `chained` have a `prev_offset`.
    """

    topic: str
    partition: int
    final: bool
    rows: int
    first_offset: int
    last_offset: int
    read_committed: bool
    chained: int = 0


class Peak(msgspec.Struct, frozen=True):
    """A HW, and when it was last seen; after that only lower ones were."""

    high_watermark: int
    at_ns: int


class ServedFacts(msgspec.Struct, frozen=True):
    """HW observations of one source and leader epoch.

    The `peaks` say for each time how high the HW was seen since. There is one peak where the HW
    never went back, and one more for each level to which it went back for good.
    """

    topic: str
    partition: int
    source: str
    leader_epoch: int | None
    peaks: list[Peak]
    rows: int
    asked: int


class CheckpointFacts(msgspec.Struct, frozen=True):
    """One replica's last checkpointed HW."""

    topic: str
    partition: int
    broker: int
    high_watermark: int


class EpochFacts(msgspec.Struct, frozen=True):
    """One leader epoch in the metadata log: its start, and its last leader."""

    topic: str
    partition: int
    leader_epoch: int
    since_ns: int
    last_metadata_offset: int
    leader: int


class CommitFacts(msgspec.Struct, frozen=True):
    """Commits of one group with one status, or answers of one broker to it (`served`), on one partition.

    `last_asked_ns`, `last_done_ns`: when the last one was sent, and when the last one was answered. An answer that
    shows a commit without the number of one of this run says nothing, and is no last one sent.
    """

    topic: str
    partition: int
    group: str
    offsets_partition: int
    status: str
    broker: int | None
    rows: int
    last_asked_ns: int | None
    last_done_ns: int | None


class CopyFacts(msgspec.Struct, frozen=True):
    """Copies of one partition's records to one topic, by the copiers of one group."""

    topic: str
    partition: int
    group: str
    copied_to: str
    rows: int


class DamagedLog(msgspec.Struct, frozen=True):
    """A replica whose log is damaged below the HW that it checkpointed.

    `why` says how, and from which offset on.
    """

    topic: str
    partition: int
    broker: int
    why: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All facts of one run, and what its manifest says of its end.

    `run` is its index among the runs read together. `clock_went_back`: see the module clock.
    `gaps`: the parts of the record that are not as the run left them. `damaged_logs`: the replicas
    whose log is damaged below its checkpointed HW. `unsafe_property`: see the module policies.
    `deletions`: the records that the run's steps deleted on purpose. `compacted`: the topics that were compacted at
    some time of the run, whose records may be missing although nothing lost them.
    """

    run: int = 0
    rows: dict[str, int]
    missing: frozenset[str]
    sends: Sequence[SendFacts]
    polls: Sequence[PollFacts]
    served: Sequence[ServedFacts]
    checkpoints: Sequence[CheckpointFacts]
    epochs: Sequence[EpochFacts]
    compacted: Sequence[str] = ()
    final_consumer: int | None
    final_offsets: dict[str, FinalOffsets]
    final_transactions: FinalTransactions | None = None
    complete: bool
    idempotent: tuple[int, ...]
    transactional: bool
    clock_went_back: bool = False
    gaps: tuple[Gap, ...] = ()
    damaged_logs: tuple[DamagedLog, ...] = ()
    deletions: tuple[Deletion, ...] = ()
    unread_replicas: tuple[str, ...] = ()
    commits: Sequence[CommitFacts] = ()
    copies: Sequence[CopyFacts] = ()
    unsafe_property: str | None = None

    @property
    def counts(self) -> Counts:
        """Rows of sends by status, and rows of polls."""
        by_status = {"acked": 0, "failed": 0, "unknown": 0}
        for one in self.sends:
            by_status[one.status] = by_status.get(one.status, 0) + one.rows
        return Counts(
            sends=self.rows["sends"],
            acked=by_status["acked"],
            failed=by_status["failed"],
            unknown=by_status["unknown"],
            polls=self.rows["polls"],
        )

    @property
    def unread(self) -> frozenset[str]:
        """Partitions (`topic-partition`) with a final log that polls has no final row of.

        The final offsets say that the log is not empty. Each client's rows are a file of their own,
        so the final read may be missing while others' polls are there. A log that has nothing but
        control records looks the same: the facts cannot distinguish them.
        """
        read = {f"{one.topic}-{one.partition}" for one in self.polls if one.final}
        full = {name for name, ends in self.final_offsets.items() if ends.high_watermark > ends.log_start}
        return frozenset(full - read)

    def without_final_read(self) -> str | None:
        """Say which partitions have no final read; None when all that matter have one.

        All that was acked or read must be covered.
        """
        if self.final_consumer is None:
            return "there was no final read"
        acked = {f"{one.topic}-{one.partition}" for one in self.sends if one.status == "acked" and one.placed}
        named = acked | {f"{one.topic}-{one.partition}" for one in self.polls}
        if uncovered := {one for one in named - self.final_offsets.keys() if not is_deleted(one)}:
            return f"the final read does not cover {short_list(uncovered)}"
        if self.unread:
            return f"polls has no row of the final read of {short_list(self.unread)}, whose log is not empty"
        return None

    def without_offsets(self) -> str | None:
        """Say how many acked records have no offset; None when all have one."""
        unplaced = sum(one.unplaced for one in self.sends if one.status == "acked")
        return f"{unplaced:,} acked record{'s have' if unplaced != 1 else ' has'} no offset" if unplaced else None

    def with_deletions(self) -> str | None:
        """Say which partitions' deleted records may have been lost before; None when none may.

        A clock that went back orders no record against a deletion.
        """
        unsure = {f"{one.topic}-{one.partition}" for one in self.sends if one.status == "acked" and one.unsure}
        if self.clock_went_back:
            unsure |= {f"{one.topic}-{one.partition}" for one in self.deletions}
        return f"records of {short_list(unsure)} {why_unsure(unsure)}" if unsure else None

    def not_whole(self) -> str | None:
        """Say what the record lacks for finding anomalies; None when nothing."""
        return "; ".join(one.why for one in self.gaps if one.part in OF_LOSSES) or None

    def with_damage(self) -> str | None:
        """Say which replicas are damaged below their HW; None when none is known to be."""
        if not self.damaged_logs:
            return None
        named = {f"{one.topic}-{one.partition} of broker {one.broker}" for one in self.damaged_logs}
        first = self.damaged_logs[0]
        return (
            f"committed records cannot be read in {len(named)} replica{'s' if len(named) != 1 else ''}: "
            f"{short_list(named)} ({first.why})"
        )

    def with_unread_replicas(self) -> str | None:
        """Say which replicas' logs or checkpoints could not be read; None when all could."""
        if not self.unread_replicas:
            return None
        replicas = short_list(frozenset(self.unread_replicas))
        return f"nothing is compared for {replicas}: the log or checkpoint is missing or damaged"

    def without_log(self) -> str | None:
        """Say which partitions' final log begins above acked offsets; None when none does.

        The final log says nothing of those offsets.
        """
        acked = [
            (f"{one.topic}-{one.partition}", one.first_offset)
            for one in self.sends
            if one.status == "acked" and one.first_offset is not None
        ]
        ends = self.final_offsets
        below = {name for name, first in acked if name in ends and first < ends[name].log_start}
        if not below:
            return None
        return f"what was acked below the final log start is not known to have been there: {short_list(below)}"

    @property
    def final_read_committed(self) -> bool:
        """Whether the final read hid what was not committed."""
        return any(one.read_committed for one in self.polls if one.final)

    @property
    def has_transactions(self) -> bool:
        """Whether any value may be one of a transaction."""
        return self.transactional or any(one.in_txn for one in self.sends)

    def missing_or_empty(self, *tables: str) -> str | None:
        """Say which of the tables are missing or empty; None when nothing is amiss."""
        lacking = [
            f"{table} is {'missing' if table in self.missing else 'empty'}"
            for table in tables
            if not self.rows[table] and not (table == "polls" and self._nothing_was_read)
        ]
        return " and ".join(lacking) or None

    @property
    def _nothing_was_read(self) -> bool:
        """Return whether polls is rightly empty: every final log is, and no consumer read."""
        ends = self.final_offsets.values()
        empty = bool(ends) and all(one.log_start == one.high_watermark for one in ends)
        return "polls" not in self.missing and empty and self.without_final_read() is None


def short_list(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:_LISTED_MAX]) + (" and more" if len(names) > _LISTED_MAX else "")


PARTITION_FACTS = pa.schema(
    [
        pa.field("run", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("final_read", pa.bool_()),
        pa.field("log_start", pa.int64()),
        pa.field("final_hw", pa.int64()),
        pa.field("final_last", pa.int64()),
        pa.field("read_last", pa.int64()),
        pa.field("compacted", pa.bool_()),
        pa.field("elections", pa.list_(pa.struct([("leader_epoch", pa.int32()), ("since_ns", pa.int64())]))),
        pa.field(
            "served",
            pa.list_(pa.struct([("leader_epoch", pa.int32()), ("high_watermark", pa.int64()), ("at_ns", pa.int64())])),
        ),
    ]
)


def partition_rows(facts: Facts) -> list[dict[str, Any]]:
    """Return one row a partition, with the columns `PARTITION_FACTS`.

    `final_read` (whether there is one of the partition), `log_start`, `final_hw` and `final_last`
    (the last offset that it returned) are of the final read. `read_last` is the last offset that
    any ordinary consumer returned. `elections` holds when each leader epoch began, `served` the
    peaks of the HW under each.
    """
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    unread = facts.unread

    def of(topic: str, partition: int) -> dict[str, Any]:
        empty: dict[str, Any] = {
            "run": facts.run,
            "topic": topic,
            "partition": partition,
            "compacted": topic in facts.compacted,
            "elections": [],
            "served": [],
        }
        return rows.setdefault((topic, partition), empty)

    for name, ends in facts.final_offsets.items():
        of(*TopicPartition.parse(name)).update(
            final_read=facts.final_consumer is not None and name not in unread,
            log_start=ends.log_start,
            final_hw=ends.high_watermark,
        )
    for poll in facts.polls:
        row, last = of(poll.topic, poll.partition), "final_last" if poll.final else "read_last"
        row[last] = max(row.get(last, -1), poll.last_offset)
    for epoch in facts.epochs:
        of(epoch.topic, epoch.partition)["elections"].append(
            {"leader_epoch": epoch.leader_epoch, "since_ns": epoch.since_ns}
        )
    for served in facts.served:
        of(served.topic, served.partition)["served"] += [
            {"leader_epoch": served.leader_epoch, "high_watermark": peak.high_watermark, "at_ns": peak.at_ns}
            for peak in served.peaks
        ]
    for sends in facts.sends:
        of(sends.topic, sends.partition)
    return list(rows.values())


def final_leaders(facts: Facts) -> dict[tuple[str, int], int]:
    """Return the leader of each partition in its last metadata record.

    Partitions without a leader are left out.
    """
    last: dict[tuple[str, int], EpochFacts] = {}
    for epoch in facts.epochs:
        key = (epoch.topic, epoch.partition)
        if key not in last or last[key].last_metadata_offset < epoch.last_metadata_offset:
            last[key] = epoch
    return {key: epoch.leader for key, epoch in last.items() if epoch.leader >= 0}
