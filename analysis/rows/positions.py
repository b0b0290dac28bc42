"""Follows the position of each group, and finds the offsets that its members left out between their sessions.

A group of a partition has an *entry* for each session in which a member got records of it, and for each reset that
moved a member's position there. The entry that began first says where the group began to read, the one that began last
where it stood at the end.

The group was promised what lies at its first position or above. It was also promised what was sent after it first had
partitions of the topic, unless the partition was one of these: then a first position at the end of the log, as
`latest` sets it, leaves out nothing that was promised.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from analysis.record.record import Record
from analysis.rows.groups import BITS, Bools, Ints
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.clients import ClientEvent
from ebbtide.record.topic_lives import is_unknown


class MemberSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session of `member` with rows from `first` to `last`, or a reset to `first`: then `last` is the offset before.

    It began at `began_ns`, and its last row came at `ended_ns`.
    """

    member: int
    began_ns: int
    ended_ns: int
    first: int
    last: int

    @property
    def is_reset(self) -> bool:
        """Whether it is a reset."""
        return self.last < self.first


class GroupPosition(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the position of a group on one partition.

    - `first`: where it began to read. `since_ns`: what was sent after that was promised whatever its offset; None: the
      group began with this partition.
    - `end`: where it stood at the end.
    - `is_settled`: the member that was last assigned the partition had a row or a reset of it then. So `end` is known.
    """

    group: str
    topic: str
    partition: int
    members: tuple[int, ...]
    first: int
    since_ns: int | None
    end: int
    is_settled: bool
    entries: tuple[MemberSession, ...]

    def masks(self, blocks: Ints) -> Ints:
        """Return for each block a mask of the offsets that the group may have passed over, by its position."""
        first = 0 if self.since_ns is not None else self.first
        return _below(blocks, self.end) & ~_below(blocks, first)

    def between_sessions(self, offsets: Ints) -> Ints:
        """Return the offsets, in order, that do not lie within a session: rules on sessions judge those."""
        left = np.ones(len(offsets), np.bool_)
        for one in self.entries:
            begin, end = np.searchsorted(offsets, [one.first, one.last])
            left[begin:end] = False
        return offsets[left]

    def reset_ns(self, offsets: Ints) -> tuple[Ints, Bools]:
        """Return when a reset last moved a member above each offset; and whether one did."""
        found = np.full(len(offsets), -1, np.int64)
        for one in self.entries:
            if one.is_reset:
                below = offsets < one.first
                found[below] = np.maximum(found[below], one.began_ns)
        return found, found >= 0


def _below(blocks: Ints, offset: int) -> Ints:
    """Return for each block a mask of its offsets below one."""
    masks = np.where(blocks < offset >> BITS, -1, 0).astype(np.int64)
    masks[blocks == offset >> BITS] = (1 << (offset & (2**BITS - 1))) - 1
    return masks


def offsets_in(blocks: Ints, masks: Ints) -> Ints:
    """Return the offsets of some masks, in order."""
    blocks, masks = blocks[masks != 0], masks[masks != 0]
    bits = (masks[:, None] >> np.arange(2**BITS)) & 1 == 1
    return np.sort(((blocks[:, None] << BITS) + np.arange(2**BITS))[bits])


def groups_of(record: Record) -> dict[int, str]:
    """Return the group of each consumer that is in one.

    Groups of copiers are left out: what they skip shows by their copies. An unreadable scenario is reported where the
    run is compared with it.
    """
    with contextlib.suppress(LookupError, TypeError, ValueError, AttributeError):
        keys = record.scenario_keys
        of_copiers = {one["group"] for one in keys.get("producers", ()) if "copies" in one and "group" in one}
        members = [one for one in keys["consumers"] if "group" in one]
        return {int(one["id"]): str(one["group"]) for one in members if one["group"] not in of_copiers}
    return {}


class MemberEvents:
    """The assignments and resets of the members of groups."""

    def __init__(self, record: Record, groups: Mapping[int, str]) -> None:
        events = record.client_events
        self.is_known = events is not None
        self.resets: dict[tuple[str, TopicPartition], list[MemberSession]] = {}
        self.last_assigned: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        self.began_ns: dict[tuple[str, str], int] = {}
        self.began_with: set[tuple[str, TopicPartition]] = set()
        of_group: dict[str, list[tuple[int, ClientEvent]]] = {}
        for consumer, group in groups.items():
            some = (events or {}).get(f"consumer-{consumer}", ())
            of_group.setdefault(group, []).extend((consumer, one) for one in some)
        for group, of_members in of_group.items():
            self._add(group, sorted(of_members, key=lambda pair: pair[1].at_ns))

    def _add(self, group: str, events: Sequence[tuple[int, ClientEvent]]) -> None:
        joined, is_first = set[int](), True
        for member, one in events:
            places = [*_places_in(one.partitions)]
            if one.event == "assigned":
                for place in places:
                    self.last_assigned[group, place] = member, one.at_ns
                    self.began_ns.setdefault((group, place.topic), one.at_ns)
                # The first assignment of the group: of each member that had none, until one is revoked.
                if is_first and member not in joined:
                    self.began_with |= {(group, place) for place in places}
                joined.add(member)
            elif one.event == "revoked":
                is_first = is_first and not places
            elif one.topic is not None and one.partition is not None and one.to is not None:
                reset = MemberSession(
                    member=member, began_ns=one.at_ns, ended_ns=one.at_ns, first=one.to, last=one.to - 1
                )
                self.resets.setdefault((group, TopicPartition(one.topic, one.partition)), []).append(reset)


def group_positions(
    groups: Mapping[int, str],
    events: MemberEvents,
    sessions: Mapping[tuple[str, TopicPartition], Sequence[MemberSession]],
    created_ns: Mapping[TopicPartition, int],
) -> list[GroupPosition]:
    """Return the position of each group on each partition that it had a position on.

    `sessions` are those of members; `created_ns` says when a partition was created.
    """
    found = []
    for group, place in sorted({*sessions, *events.resets}):
        # A reset of an earlier topic of that name has the same name.
        created = created_ns.get(place, 0)
        resets = [one for one in events.resets.get((group, place), ()) if one.began_ns >= created]
        entries = [*sessions.get((group, place), ()), *resets]
        if not entries:
            continue
        first = min(entries, key=lambda one: (one.began_ns, one.first))
        last = max(entries, key=lambda one: (one.began_ns, one.last))
        owner, assigned_ns = events.last_assigned.get((group, place), (last.member, 0))
        began_ns = events.began_ns.get((group, place.topic))
        began_with = began_ns is None or ((group, place) in events.began_with and created <= began_ns)
        found.append(
            GroupPosition(
                group=group,
                topic=place.topic,
                partition=place.partition,
                members=tuple(sorted(member for member, of in groups.items() if of == group)),
                first=first.first,
                since_ns=None if began_with else began_ns,
                end=last.last + 1,
                is_settled=any(one.member == owner and one.ended_ns >= assigned_ns for one in entries),
                entries=tuple(entries),
            )
        )
    return found


def _places_in(names: Sequence[str]) -> Iterator[TopicPartition]:
    for name in names:
        with contextlib.suppress(ValueError):
            yield TopicPartition.parse(name)


def why_unknown_membership(record: Record) -> str | None:
    """Return why it is not known which consumers are a group, where none is known; None: the record has no groups."""
    if record.scenario_keys:
        return None
    events = (record.client_events or {}).values()
    if any(one.event == "assigned" for some in events for one in some):
        return "scenario.toml is missing or cannot be read, so which consumers are a group is not known"
    return None


def why_unknown_positions(
    events: MemberEvents, sessions: Mapping[tuple[str, TopicPartition], Sequence[MemberSession]]
) -> str | None:
    """Return why the positions of groups are not known; None: they are."""
    if not events.is_known:
        return "clients is missing, so where resets moved a group is not known"
    if unknown := next((str(place) for _, place in sessions if is_unknown(place.topic)), None):
        return f"a group read records of {unknown}, so of which topic is not known"
    return None


PASSED = pa.schema(
    [
        *(pa.field(name, kind) for name, kind in (("run", pa.int32()), ("group", pa.string()), ("topic", pa.string()))),
        *(pa.field(name, kind) for name, kind in (("partition", pa.int32()), ("offset", pa.int64()))),
        pa.field("members", pa.list_(pa.int32())),
        *(pa.field(name, pa.int64()) for name in ("first", "since_ns", "reset_ns")),
    ]
)
"""Offsets of acks and final read that no member of a group got, between sessions; the columns as in `GroupPosition`.

`reset_ns`: when a reset last moved a member above the offset, null where none did.
"""


def passed_rows(run: int, position: GroupPosition, offsets: Ints) -> pa.Table:
    """Return offsets as rows of `PASSED`."""
    reset_ns, is_reset = position.reset_ns(offsets)
    same = [run, position.group, position.topic, position.partition]
    columns = [pa.array([one] * len(offsets), PASSED.field(at).type) for at, one in enumerate(same)]
    known = [list(position.members), position.first, position.since_ns]
    more = [pa.array([one] * len(offsets), PASSED.field(at).type) for at, one in enumerate(known, 5)]
    return pa.Table.from_arrays([*columns, pa.array(offsets), *more, pa.array(reset_ns, mask=~is_reset)], schema=PASSED)
