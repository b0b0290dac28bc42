"""Finds which records of the metadata log a majority of the controllers has acknowledged.

Ebbtide reads the files, and so the page cache: it sees that a batch was written, and not that it was flushed. But a
follower may ask for what follows a batch only after it has flushed the batch (KIP-595), and its question acknowledges
the batch to the leader. That question is proven by the order of what is seen:

- At one look the batch is the newest of the follower's log, and at the next look no log has anything behind it. So the
  leader wrote what follows after the follower had the batch.
- Later the follower has what follows. It got that by an answer to a question behind the batch.

The leader may answer a question with a batch before it has flushed it: its one thread appends every batch that waits,
answers, and then flushes them together. So a batch that a follower had while the leader's log had nothing behind it was
the last of its round, and the leader flushed it before it appended what follows. In a quorum of one voter, nothing
is said: there, no follower's question tells a look at the middle of a write from the end of one.

In a dynamic quorum the majority is one of the voters that rule over the batch, each with the disk that votes.
Observers count for nothing.

A batch that a majority has acknowledged is committed if no newer epoch is seen anywhere: then that majority took it
from the leader of its own epoch, and every later leader has it. A batch of an older epoch may be on a majority and
still be undone.

The voters of a dynamic quorum, which records of the metadata log say (KIP-853).

A voter is a controller with one disk: its id and the directory id of the disk. With another disk it is an observer. A
set of voters rules over the batch that has its record, and over all batches behind it up to the next record: a leader
counts by the newest record of its own log. Two neighbouring sets differ in one voter, and a leader appends a record
only once the one before is committed. Any majority of a set therefore shares a voter with any majority of its
neighbours, and what a majority of the ruling set acknowledged stays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType

import msgspec

from ebbtide.kraft.follower import BatchId, FollowedItem
from ebbtide.kraft.records import MetadataRecord

VOTERS_RECORD = "VotersRecord"


class VoterSet(msgspec.Struct, frozen=True, kw_only=True):
    """The voters of one record: the directory id of each, by controller id. The epoch is that of the record."""

    metadata_offset: int
    epoch: int
    voters: Mapping[int, str]

    def majority_of(self, having: Mapping[int, str | None]) -> tuple[int, ...] | None:
        """Return the voters among the controllers `having` something, if they are a majority; else None.

        Each comes with the directory id of its disk, None if that is not known: then it counts as the voter's.
        """
        found = tuple(one for one in sorted(having) if one in self.voters and having[one] in (None, self.voters[one]))
        return found if len(found) > len(self.voters) // 2 else None


class _Voter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    voter_id: int
    voter_directory_id: str


class _VotersRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    voters: tuple[_Voter, ...]


def voter_set_of(record: MetadataRecord) -> VoterSet:
    """Return the voters that a VotersRecord says."""
    voters = record.as_type(_VotersRecord).voters
    return VoterSet(
        metadata_offset=record.offset,
        epoch=record.epoch,
        voters={one.voter_id: one.voter_directory_id for one in voters},
    )


def voter_sets_in(items: Iterable[FollowedItem]) -> list[VoterSet]:
    """Return the sets of voters in what was read of a log at rest, oldest first."""
    return [
        voter_set_of(one)
        for one in items
        if isinstance(one, MetadataRecord) and one.name == VOTERS_RECORD and one.undecoded is None
    ]


def ruling_set(sets: Sequence[VoterSet], next_offset: int) -> VoterSet | None:
    """Return the set that rules over a batch which ends before `next_offset`; None: no record says it."""
    return next((one for one in reversed(sets) if one.metadata_offset < next_offset), None)


class CommittedBatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A batch that a majority of the voters had acknowledged at `at_ns`; with it, every batch before it.

    `controllers` are the voters that had.
    """

    base_offset: int
    next_offset: int
    epoch: int
    crc: int
    at_ns: int
    controllers: tuple[int, ...]
    voters: tuple[int, ...] | None = None
    """The voters that rule over the batch in a dynamic quorum; None: every controller votes."""

    @property
    def identity(self) -> tuple[int, int, int]:
        """The identity of the batch, as of a `BatchId`."""
        return self.base_offset, self.epoch, self.crc


class CommitWatch:
    """Notes each newest committed batch, from the batches that each controller's log has."""

    def __init__(self, controllers: int, *, is_dynamic: bool = False) -> None:
        """Without `is_dynamic` every controller votes."""
        self.committed: list[CommittedBatch] = []
        self._controllers = controllers
        self._is_dynamic = is_dynamic
        self._directories: dict[int, str] = {}
        """The directory id of the disk that each controller has, as far as it is known."""
        self._last: dict[int, BatchId] = {}
        """The newest batch of each log at the last look."""
        self._quiet: dict[int, BatchId] = {}
        """The newest batch that a controller had while no log had anything behind it."""
        self._acknowledged: dict[int, BatchId] = {}
        self._epoch = -1

    def observe(
        self,
        logs: Mapping[int, Sequence[BatchId]],
        now_ns: int,
        voter_sets: Mapping[int, Sequence[VoterSet]] = MappingProxyType({}),
        directories: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """Look at the logs of all controllers, as they are now.

        `voter_sets` are those in each log, oldest first; `directories` the directory ids of the disks that can be read.
        """
        if self._controllers < 2:
            return
        for controller, directory in directories.items():
            if self._directories.get(controller, directory) != directory:
                self._forget(controller)
            self._directories[controller] = directory
        newest = {one: log[-1] for one, log in logs.items() if log}
        self._epoch = max([self._epoch, *(one.epoch for one in newest.values())])
        for controller, log in logs.items():
            self._look_at(controller, log)
        end = max((one.next_offset for one in newest.values()), default=0)
        # What was the newest at the last look is still the end of every log: nothing was behind it then.
        self._quiet |= {
            one: batch
            for one, batch in self._last.items()
            if batch.next_offset >= end and has_batch(logs.get(one, ()), batch)
        }
        self._last = newest
        self._note_committed(logs, now_ns, voter_sets)

    def _note_committed(
        self, logs: Mapping[int, Sequence[BatchId]], now_ns: int, voter_sets: Mapping[int, Sequence[VoterSet]]
    ) -> None:
        """Note the newest batch that a majority of its voters has acknowledged, unless it is noted."""
        newest_first = sorted(self._acknowledged.items(), key=lambda one: one[1].base_offset, reverse=True)
        last = self.committed[-1] if self.committed else None
        for controller, batch in newest_first:
            if last is not None and batch.base_offset <= last.base_offset:
                return
            if batch.epoch != self._epoch:
                continue
            having = tuple(one for one in sorted(self._acknowledged) if self._has_acknowledged(one, logs[one], batch))
            voters: tuple[int, ...] | None = None
            if self._is_dynamic:
                ruling = ruling_set(voter_sets.get(controller, ()), batch.next_offset)
                if ruling is None or len(ruling.voters) < 2:
                    continue
                voters = tuple(sorted(ruling.voters))
                # A disk whose id was never read proves no vote.
                majority = ruling.majority_of({one: self._directories.get(one, "") for one in having})
            else:
                majority = having if len(having) > self._controllers // 2 else None
            if majority is not None:
                self.committed.append(
                    CommittedBatch(
                        base_offset=batch.base_offset,
                        next_offset=batch.next_offset,
                        epoch=batch.epoch,
                        crc=batch.crc,
                        at_ns=now_ns,
                        controllers=majority,
                        voters=voters,
                    )
                )
                return

    def _forget(self, controller: int) -> None:
        """Drop what a controller had on another disk."""
        for kept in (self._acknowledged, self._quiet, self._last):
            kept.pop(controller, None)

    def _look_at(self, controller: int, log: Sequence[BatchId]) -> None:
        for kept in (self._acknowledged, self._quiet):
            if controller in kept and not has_batch(log, kept[controller]):
                del kept[controller]
        quiet = self._quiet.get(controller)
        if quiet is not None and log[-1].base_offset > quiet.base_offset:
            self._acknowledged[controller] = self._quiet.pop(controller)

    def _has_acknowledged(self, controller: int, log: Sequence[BatchId], batch: BatchId) -> bool:
        return self._acknowledged[controller].base_offset >= batch.base_offset and has_batch(log, batch)


def has_batch(log: Sequence[BatchId], batch: BatchId | CommittedBatch) -> bool:
    """Whether a log, in the order of its offsets, has this very batch."""
    at = bisect_left(log, batch.base_offset, key=attrgetter("base_offset"))
    return at < len(log) and log[at].identity == batch.identity
