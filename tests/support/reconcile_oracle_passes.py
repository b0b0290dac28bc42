"""The rule on what groups pass over a second time, in plain Python over rows, for tests only."""

from __future__ import annotations

from typing import Any, NamedTuple

from reconcile_oracle_tables import PlacedTables, Row, place_of
from records import RecordBuilder

Item = tuple[str, str, int, int | None, int | None]
Place = tuple[str, int]


class _Session(NamedTuple):
    """Rows of a member in a session, or none: a reset to `begin`."""

    began_ns: int
    ended_ns: int
    begin: int
    end: int
    member: int
    rows: list[Row]


def passed_over_items(b: RecordBuilder) -> list[Item]:
    """An item for each group and offset that it passed over."""
    tables = PlacedTables.of(b.tables)
    places = {place_of(row) for row in tables["sends"]}
    return [
        ("passed-over", *place, offset, value)
        for group in sorted(set(b.groups.values()))
        for place in places
        for offset, value in _passed(b, tables, group, place).items()
    ]


def _passed(b: RecordBuilder, tables: PlacedTables, group: str, place: Place) -> dict[int, int]:
    members = {member for member, name in b.groups.items() if name == group}
    name = f"{place[0]}-{place[1]}"
    events = sorted(
        ((one.at_ns, member, one) for member in members for one in b.events.get(member, [])), key=lambda each: each[0]
    )
    creations = [row["at_ns"] for row in tables["partitions"] if place_of(row) == place and row["leader_epoch"] == 0]
    created = min(creations, default=0)
    sessions = _sessions(tables, members, place)
    for at_ns, member, one in events:
        if one.to is not None and (one.topic, one.partition) == place and at_ns >= created:
            sessions.append(_Session(at_ns, at_ns, one.to, one.to, member, []))
    if not sessions:
        return {}
    of_topic = [
        (at_ns, member, one)
        for at_ns, member, one in events
        if one.event == "assigned" and any(each.startswith(f"{place[0]}-") for each in one.partitions)
    ]
    began = of_topic[0][0] if of_topic else None
    revoked = min((at_ns for at_ns, _, one in events if one.event == "revoked" and one.partitions), default=10**9)
    began_with = any(
        name in one.partitions and at_ns < revoked and _is_first(events, at_ns, member)
        for at_ns, member, one in of_topic
    )
    begins = began is None or (began_with and created <= began)
    mine = [(at_ns, member) for at_ns, member, one in of_topic if name in one.partitions]
    if mine and not any(one.member == mine[-1][1] and one.ended_ns >= mine[-1][0] for one in sessions):
        return {}
    first = min(sessions, key=lambda one: (one.began_ns, one.begin)).begin
    end = max(sessions, key=lambda one: (one.began_ns, one.end)).end
    got = {row["offset"] for one in sessions for row in one.rows}
    found: dict[int, int] = {}
    for send in tables["sends"]:
        offset = send["offset"]
        if place_of(send) != place or send["status"] != "acked" or offset is None or offset in got or offset >= end:
            continue
        if (send["txn"] is not None or send["txn_outcome"] is not None) and send["txn_outcome"] != "committed":
            continue
        if offset < first and (begins or began is None or send["sent_ns"] < began):
            continue
        if any(one.begin < offset < one.end - 1 for one in sessions):
            continue
        if not _stands(b, tables, place, offset, send["value"]):
            continue
        read_above = any(
            row["offset"] > offset and _stands(b, tables, place, row["offset"], row["value"], row)
            for one in sessions
            for row in one.rows
        )
        reset_above = any(
            not one.rows and one.begin > offset and send["done_ns"] is not None and send["done_ns"] < one.began_ns
            for one in sessions
        )
        if read_above or reset_above:
            found[offset] = min(send["value"], found.get(offset, send["value"]))
    return found


def _is_first(events: list[Any], at_ns: int, member: int) -> bool:
    return not any(when < at_ns and other == member and one.event == "assigned" for when, other, one in events)


def _sessions(tables: PlacedTables, members: set[int], place: Place) -> list[_Session]:
    rows: dict[tuple[int, int, str], list[Row]] = {}
    for row in tables.polls_at(place):
        if row["consumer"] in members:
            rows.setdefault((row["consumer"], row["session"], row["isolation"]), []).append(row)
    return [
        _Session(
            min(row["polled_ns"] for row in some),
            max(row["polled_ns"] for row in some),
            min(row["offset"] for row in some),
            max(row["offset"] for row in some) + 1,
            member,
            some,
        )
        for (member, _, _), some in rows.items()
    ]


def _stands(
    b: RecordBuilder, tables: PlacedTables, place: Place, offset: int, value: int | None, poll: Row | None = None
) -> bool:
    """Whether the final read has the value there; of a poll, also with its leader epoch."""
    return any(
        row["consumer"] == b.final_consumer
        and row["value"] == value
        and (poll is None or row["leader_epoch"] == poll["leader_epoch"])
        for row in tables.polls_of_offset(place, offset)
    )
