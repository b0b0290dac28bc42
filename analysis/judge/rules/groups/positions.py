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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from analysis.reconcile.final_log_rows import SESSIONS
from analysis.reconcile.undone_deletions import with_undone_deletions
from analysis.record.groups import BITS, Bools, Ints, parts_of
from analysis.record.record import Record
from analysis.record.scans import Rows
from analysis.rows.compare import ComparedBlocks
from analysis.rows.facts import Facts
from analysis.rows.question import KindAnswer, KindQuestion, Place, RowType, RunSums
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.clients import CLIENTS_DIR, ClientEvent
from ebbtide.record.tables import schema_of_rows
from ebbtide.record.topic_lives import is_unknown

_NONE: Ints = np.zeros(0, np.int64)


class _SessionKey(NamedTuple):
    """A session of a member on one partition."""

    topic: str
    partition: int
    consumer: int
    session: int
    read_committed: int


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


def _offsets_in(blocks: Ints, masks: Ints) -> Ints:
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


class _MemberEvents:
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


def _group_positions(
    groups: Mapping[int, str],
    events: _MemberEvents,
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


def _why_unknown_positions(
    events: _MemberEvents, sessions: Mapping[tuple[str, TopicPartition], Sequence[MemberSession]]
) -> str | None:
    """Return why the positions of groups are not known; None: they are."""
    if not events.is_known:
        return "clients is missing, so where resets moved a group is not known"
    if unknown := next((str(place) for _, place in sessions if is_unknown(place.topic)), None):
        return f"a group read records of {unknown}, so of which topic is not known"
    return None


_PASSED = schema_of_rows("""
    run int32 group string topic string partition int32 offset int64 members list<int32> first int64
    since_ns int64 reset_ns int64
""")


def _as_rows(summed: RunSums) -> pa.Table:
    found = [_PASSED.empty_table()]
    for one, offsets in summed.of(LeftOut).found:
        reset_ns, is_reset = one.reset_ns(offsets)
        place = [summed.facts.run, one.group, one.topic, one.partition]
        columns = [
            *(_repeat(each, field, offsets) for each, field in zip(place, _PASSED, strict=False)),
            pa.array(offsets),
            *(_repeat(getattr(one, name), _PASSED.field(name), offsets) for name in ("members", "first", "since_ns")),
            pa.array(reset_ns, mask=~is_reset),
        ]
        found.append(pa.Table.from_arrays(columns, schema=_PASSED))
    return pa.concat_tables(found)


def _repeat(one: object, field: pa.Field, offsets: Ints) -> pa.Array:
    return pa.repeat(pa.scalar(one, field.type), len(offsets))


PASSED = RowType("passed", _PASSED, _as_rows)
"""Offsets of acks and final read that no member of a group got, between sessions; the columns as in `GroupPosition`.

`reset_ns`: when a reset last moved a member above the offset, null where none did.
"""


class LeftOut(KindQuestion):
    """Is there an acked offset of the final read that a group left out between its members' sessions?"""

    row_types = (PASSED, SESSIONS)

    def __init__(self, run: Record, folder: Callable[[], Path]) -> None:
        super().__init__(run, folder)
        self._groups = groups_of(run)
        self._sessions: dict[_SessionKey, MemberSession] = {}
        self._positions: Sequence[GroupPosition] | None = None
        self._why_unknown: str | None = None
        self._left: dict[tuple[GroupPosition, bool], list[Ints]] = {}
        self.found: list[tuple[GroupPosition, Ints]] = []
        if self._groups:
            self.reads = {"polls": ("polled_ns",)}

    def add(self, rows: Rows) -> None:
        """Sum up the sessions of members."""
        members = np.flatnonzero(np.isin(rows.numbers("consumer"), [*self._groups]) & ~rows.is_final())
        if not len(members):
            return
        (topic, topics), committed = rows.words("topic"), rows.where_word("isolation", "read_committed")
        numbers = [rows.numbers(name)[members] for name in ("partition", "consumer", "session")]
        offset, polled_ns = rows.numbers("offset")[members], rows.numbers("polled_ns")[members]
        for key, here in parts_of([topic[members], *numbers, committed[members].astype(np.int64)]):
            one = MemberSession(
                member=key[2],
                began_ns=int(polled_ns[here].min()),
                ended_ns=int(polled_ns[here].max()),
                first=int(offset[here].min()),
                last=int(offset[here].max()),
            )
            at = _SessionKey(topics[key[0]], *key[1:])
            with self.lock:
                self._sessions[at] = _joined(self._sessions[at], one) if at in self._sessions else one

    def look_at(self, summed: RunSums, place: Place, blocks: ComparedBlocks) -> None:
        """Find what each group left out of some blocks of a partition."""
        for position in self._positions_on(summed, place):
            left = blocks.acked & ~blocks.got_by(position.members) & position.masks(blocks.block)
            for is_below, masks in ((False, left & blocks.final), (True, left & ~blocks.final)):
                if masks.any():
                    offsets = position.between_sessions(_offsets_in(blocks.block, masks))
                    offsets = offsets[offsets < blocks.log_start] if is_below else offsets
                    self._left.setdefault((position, is_below), []).append(offsets)

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the blocks of what groups left out, if it is known where they stood."""
        offsets, doubts = dict[Place, list[Ints]](), []
        for place in summed.partitions:
            where = f"{place[0]}-{place[1]}"
            for position in self._positions_on(summed, place):
                left, below = (np.concatenate(self._left.get((position, one), [_NONE])) for one in (False, True))
                if len(below):
                    why = f"the group {position.group} left out acked records of {where} below the final log start"
                    doubts.append(f"{why}: whether the log still had them is not known")
                if len(left) and not position.is_settled:
                    why = f"the group {position.group} got nothing of {where} after its last assignment"
                    doubts.append(f"{why}, so where it stands is not known")
                elif len(left):
                    offsets.setdefault(place, []).append(np.unique(left >> BITS))
                    self.found.append((position, left))
        why_unknown = self._why_not_judged(summed.facts, "; ".join(doubts) or None)
        return KindAnswer(offsets={at: np.concatenate(some) for at, some in offsets.items()}, why_unknown=why_unknown)

    def _positions_on(self, summed: RunSums, place: Place) -> list[GroupPosition]:
        """Return the positions on a partition; none where the clock cannot put sessions and resets in order."""
        if self._positions is None:
            self._positions = self._find_positions(summed.facts)
        if summed.facts.clock_went_back:
            return []
        return [one for one in self._positions if (one.topic, one.partition) == place]

    def _find_positions(self, facts: Facts) -> Sequence[GroupPosition]:
        record = self.run
        if not self._groups:
            self._why_unknown = why_unknown_membership(record)
            return ()
        events = _MemberEvents(record, self._groups)
        sessions: dict[tuple[str, TopicPartition], list[MemberSession]] = {}
        for key, one in self._sessions.items():
            at = self._groups[key.consumer], TopicPartition(key.topic, key.partition)
            sessions.setdefault(at, []).append(one)
        created_ns = {
            TopicPartition(one.topic, one.partition): one.since_ns for one in facts.epochs if one.leader_epoch == 0
        }
        self._why_unknown = _why_unknown_positions(events, sessions)
        return _group_positions(self._groups, events, sessions, created_ns)

    def _why_not_judged(self, facts: Facts, doubts: str | None) -> str | None:
        """Return why nothing, or not everything, could be judged; None also where no consumer is in a group."""
        if not self._positions:
            return self._why_unknown
        if gap := next((one for one in facts.gaps if one.part == CLIENTS_DIR), None):
            return gap.why
        if not facts.complete:
            return "the run is not complete: what the final read did not reach is not known"
        if lacking := facts.missing_or_empty("sends", "polls") or facts.without_final_read():
            return lacking
        if facts.clock_went_back:
            return "the clock was set back, so the order of sessions and resets is not known"
        return self._why_unknown or doubts or with_undone_deletions(facts)


def _joined(one: MemberSession, other: MemberSession) -> MemberSession:
    return MemberSession(
        member=one.member,
        began_ns=min(one.began_ns, other.began_ns),
        ended_ns=max(one.ended_ns, other.ended_ns),
        first=min(one.first, other.first),
        last=max(one.last, other.last),
    )
