"""The voters of a dynamic quorum, which records of the metadata log say (KIP-853).

A voter is a controller with one disk: its id and the directory id of the disk. With another disk it is an observer. A
set of voters rules over the batch that has its record, and over all batches behind it up to the next record: a leader
counts by the newest record of its own log. Two neighbouring sets differ in one voter, and a leader appends a record
only once the one before is committed. Any majority of a set therefore shares a voter with any majority of its
neighbours, and what a majority of the ruling set acknowledged stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ebbtide.kraft.follower import FollowedItem
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
