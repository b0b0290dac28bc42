"""The timeline: applies the follower's items and returns a row per change.

Records between Begin and EndTransaction count when the transaction ends, or never when it is aborted (KIP-868). A
snapshot replaces the state when its footer is read. A truncation removes what it cut off. Records that could not be
replayed are counted in `skipped`, by reason, and never dropped silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from ebbtide.kraft.commits import VoterSet
from ebbtide.kraft.follower import FollowedItem, LogGap, LogTruncated, SnapshotStarted
from ebbtide.kraft.records import MetadataRecord
from ebbtide.kraft.state import MetadataState
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.rows import BrokerEvent, ConfigChange, PartitionState, Row

_FEATURE = "feature:"


class MetadataImage:
    """The cluster's state after everything applied so far.

    The mappings are views of the current state.
    """

    def __init__(self) -> None:
        self._applied: list[FollowedItem] = []
        self._reset()

    def _reset(self) -> None:
        self.next_offset = 0
        """The offset after the newest applied record."""
        self._state = MetadataState()
        self._before_snapshot: MetadataState | None = None
        self._transaction: list[MetadataRecord] | None = None

    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionState]:
        """The current state of every partition of every topic that is not deleted."""
        return MappingProxyType(self._state.partitions)

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The name of every topic by its id, as Kafka prints ids; also of topics that are deleted."""
        return MappingProxyType(self._state.topic_ids)

    def topic_id(self, topic: str) -> str | None:
        """Return the id of the topic that has this name now; None: there is none."""
        return self._state.id_of_topic(topic)

    @property
    def brokers(self) -> Mapping[int, BrokerEvent]:
        """The newest registration event of every broker."""
        return MappingProxyType(self._state.brokers)

    @property
    def features(self) -> Mapping[str, int]:
        """Finalized feature levels by name."""
        return {
            resource.removeprefix(_FEATURE): int(row.value or 0)
            for (resource, _), row in self._state.configs.items()
            if resource.startswith(_FEATURE)
        }

    @property
    def configs(self) -> Mapping[tuple[str, str], str]:
        """Configs in force, by resource and name.

        A config that was deleted or never set is absent.
        """
        return {key: row.value or "" for key, row in self._state.configs.items() if not key[0].startswith(_FEATURE)}

    @property
    def config_rows(self) -> Mapping[tuple[str, str], ConfigChange]:
        """The row of each config and feature level in force, by resource and name.

        The name of a feature's row is `level`.
        """
        return MappingProxyType(self._state.configs)

    @property
    def controller(self) -> int | None:
        """The active controller as of the newest leader change; None before the first."""
        return self._state.controller

    @property
    def voter_sets(self) -> Sequence[VoterSet]:
        """Every set of voters that a record said so far, oldest first; none in a static quorum."""
        return self._state.voter_sets

    @property
    def skipped(self) -> Mapping[str, int]:
        """Records that were not replayed and missing offsets, counted by reason."""
        return MappingProxyType(self._state.skipped)

    def history(self) -> list[Row]:
        """Return a row per change since the start of the log; it replays everything that was applied."""
        return MetadataImage().apply(self._applied)

    def apply(self, items: Iterable[FollowedItem]) -> list[Row]:
        """Replay what `MetadataFollower.poll` returned; returns a row per change.

        After a truncation the state is as if the records from its end offset on had never existed. Their rows that
        were returned before are void.
        """
        return [row for item in items for row in self._apply(item)]

    def _apply(self, item: FollowedItem) -> Sequence[Row]:
        if isinstance(item, LogTruncated):
            kept = [old for old in self._applied if not _from_offset(old, item.end_offset)]
            self._applied = []
            self._reset()
            self.apply(kept)
            return ()
        self._applied.append(item)
        match item:
            case SnapshotStarted():
                self._before_snapshot, self._state = self._state, MetadataState()
                self._state.skipped.update(self._before_snapshot.skipped)
                self._state.controller = self._before_snapshot.controller
                self._state.topic_ids.update(self._before_snapshot.topic_ids)
                self._state.voter_sets += self._before_snapshot.voter_sets
                self._transaction = None
                return ()
            case LogGap():
                self._state.skipped["missing offset"] += item.end - item.start
                return ()
        return self._record(item)

    def _record(self, record: MetadataRecord) -> Sequence[Row]:
        self.next_offset = record.offset + 1
        if record.undecoded is not None:
            self._state.skipped[f"{record.name}: {record.undecoded}"] += 1
            return ()
        match record.name:
            case "BeginTransactionRecord":
                self._transaction = []
                return ()
            case "EndTransactionRecord" | "AbortTransactionRecord":
                held, self._transaction = self._transaction or [], None
                if record.name == "AbortTransactionRecord":
                    return ()
                return [row for each in held for row in self._state.replay(each)]
            case "SnapshotFooterRecord" if self._before_snapshot is not None:
                before, self._before_snapshot = self._before_snapshot, None
                return self._state.differences(before, record)
        if self._transaction is not None and not record.control:
            self._transaction.append(record)
            return ()
        rows = self._state.replay(record)
        return () if self._before_snapshot is not None else rows


def _from_offset(item: FollowedItem, end_offset: int) -> bool:
    if isinstance(item, MetadataRecord):
        return item.offset >= end_offset
    return isinstance(item, LogGap) and item.start >= end_offset


def describe(state: PartitionState) -> str:
    """Return a partition's state in a line: `t-0 leader 1 epoch 4 ISR [1] ELR [2]`."""
    leader = "none" if state.leader < 0 else str(state.leader)
    text = f"{state.topic}-{state.partition} leader {leader} epoch {state.leader_epoch} ISR {sorted(state.isr)}"
    if state.elr:
        text += f" ELR {sorted(state.elr)}"
    if state.last_known_elr:
        text += f" last known ELR {sorted(state.last_known_elr)}"
    if state.adding or state.removing:
        text += f" adding {sorted(state.adding)} removing {sorted(state.removing)}"
    return text + (" RECOVERING" if state.leader_recovery_state else "")
