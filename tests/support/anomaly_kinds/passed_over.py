"""What groups pass over: cases for and against, when nobody can tell, and the rule a second time."""

from __future__ import annotations

from typing import Any, NamedTuple

from reconcile_cases import Cases, Mutant, Unknown, complete
from reconcile_oracle_run import clock_went_back, served_marks
from reconcile_oracle_tables import Item, Place, PlacedTables, Row, place_of
from records import RecordBuilder

from analysis.judge.rules.groups import passed_over as rule

KIND = "passed-over"
COLUMNS = {"leader_epoch": 0}
_RECORDS = 70
"""More than a block of offsets, so that some blocks agree and some do not."""


def log(b: RecordBuilder, *, partition: int = 0, **columns: object) -> RecordBuilder:
    """Six records, acked and in the final log."""
    values = range(10 * partition + 1, 10 * partition + 7)
    b.acked(*values, at=0, partition=partition, **columns)
    return b.final(*values, at=0, partition=partition, **COLUMNS)


def reads(
    b: RecordBuilder, begin: int, end: int, *, member: int, session: int = 1, partition: int = 0, **columns: object
) -> RecordBuilder:
    """A member gets the records from offset `begin` to `end`, the last one included."""
    values = range(10 * partition + begin + 1, 10 * partition + end + 2)
    more = {"consumer": member, "session": session, "partition": partition, **COLUMNS, **columns}
    return b.read(*values, at=begin, **more)


def group(b: RecordBuilder, first: int, *more: int) -> RecordBuilder:
    """A group of these members; all of them had partition 0 from the beginning."""
    b.group(f"group of {first}", first, *more)
    for member in (first, *more):
        b.assigned(member, 0)
    return b


def _late_partition(b: RecordBuilder, member: int) -> RecordBuilder:
    """A group at `latest` begins with partition 0, and finds partition 1 after it has records."""
    log(group(b, member).reset(member, 0), partition=1)
    b.assigned(member, 0, event="revoked").assigned(member, 0, 1).reset(member, 4, partition=1)
    return reads(b, 4, 5, member=member, session=2, partition=1)


CASES: Cases = {
    complete: {
        "a session goes on where another member's ended": (
            lambda b: reads(reads(log(group(b, 11, 12)), 0, 2, member=11), 3, 5, member=12),
            {},
        ),
        "a session begins above the end of the one before": (
            lambda b: reads(reads(log(group(b, 21, 22)), 0, 1, member=21), 4, 5, member=22),
            {KIND: [(2, 3), (3, 4)]},
        ),
        "what a third member reads later is not passed over": (
            lambda b: reads(
                reads(reads(log(group(b, 31, 32, 33)), 0, 1, member=31), 4, 5, member=32), 2, 5, member=33
            ),
            {},
        ),
        "another group's read does not help": (
            lambda b: reads(
                reads(reads(log(group(group(b, 41), 42)), 0, 5, member=42), 0, 1, member=41),
                4, 5, member=41, session=2,
            ),
            {KIND: [(2, 3), (3, 4)]},
        ),
        "a consumer in no group passes over what it likes": (
            lambda b: reads(reads(log(b), 0, 1, member=51), 4, 5, member=51, session=2),
            {},
        ),
        "a new group that begins at the end was promised nothing before": (
            lambda b: reads(log(group(b, 61)).reset(61, 4), 4, 5, member=61),
            {},
        ),
        "a partition that a group finds late was sent while the group ran": (
            lambda b: _late_partition(b, 71),
            {KIND: [(0, 11), (1, 12), (2, 13), (3, 14)]},
        ),
        "a partition that had records before the group ran owes it only what it begins with": (
            lambda b: reads(
                log(b, partition=1).group("late", 81).assigned(81, 0).assigned(81, 0, event="revoked")
                .assigned(81, 0, 1).reset(81, 4, partition=1),
                4, 5, member=81, partition=1,
            ),
            {},
        ),
        "a reset leaves out what was acked before it, though nobody reads on": (
            lambda b: reads(log(group(b, 91)), 0, 1, member=91).reset(91, 6),
            {KIND: [(2, 3), (3, 4), (4, 5), (5, 6)]},
        ),
        "a reset leaves out nothing that was acked after it": (
            lambda b: log(reads(group(b, 101), 0, 1, member=101).reset(101, 6)),
            {},
        ),
        "a group that was set back reads the rest later": (
            lambda b: reads(
                reads(reads(log(group(b, 111)), 0, 1, member=111), 4, 5, member=111, session=2),
                0, 1, member=111, session=3,
            ),
            {},
        ),
        "what lies within a session is a jump of that session": (
            lambda b: (
                log(group(b, 121))
                .read(1, at=0, consumer=121, leader_epoch=0)
                .read(6, at=5, consumer=121, prev_offset=0, leader_epoch=0)
            ),
            {"poll-skip": [(5, 6)], "unseen": [(1, None), (2, None), (3, None), (4, None)]},
        ),
        "an aborted transaction owes nobody its records": (
            lambda b: reads(
                reads(log(group(b, 131), txn=1, txn_outcome="aborted"), 0, 1, member=131), 4, 5, member=131, session=2
            ),
            {},
        ),
        "a committed transaction does": (
            lambda b: reads(
                reads(log(group(b, 141), txn=1, txn_outcome="committed"), 0, 1, member=141, isolation="read_committed"),
                4, 5, member=141, session=2, isolation="read_committed",
            ),
            {KIND: [(2, 3), (3, 4)]},
        ),
        "a record that was replaced is not the one that was acked": (
            lambda b: reads(
                reads(
                    group(b, 151).acked(1, 2, 7, 8, 5, 6, at=0).final(1, 2, 3, 4, 5, 6, at=0, leader_epoch=0),
                    0, 1, member=151,
                ),
                4, 5, member=151, session=2,
            ),
            {"lost": [(2, 7), (3, 8)], "inconsistent-offset": [(2, None), (3, None)], "dirty-order": [(2, 7)]},
        ),
        "a row above that was cut off proves nothing of what was below": (
            lambda b: (
                reads(log(group(b, 161)), 0, 1, member=161)
                .read(98, 99, at=4, consumer=161, session=2, leader_epoch=7)
            ),
            {"vanished": [(4, 98), (5, 99)], "inconsistent-offset": [(4, None), (5, None)]},
        ),
        "what another group read above does not prove that the log had it when this group was there": (
            lambda b: (
                reads(reads(log(group(group(b, 171), 172)), 0, 5, member=172), 0, 1, member=171)
                .read(98, 99, at=4, consumer=171, session=2, leader_epoch=7)
            ),
            {"vanished": [(4, 98), (5, 99)], "inconsistent-offset": [(4, None), (5, None)]},
        ),
    },
}  # fmt: skip


def passing() -> RecordBuilder:
    return reads(reads(log(group(RecordBuilder(), 1)), 0, 1, member=1), 4, 5, member=1, session=2)


def _in_clock_that_went_back() -> RecordBuilder:
    return passing().served(3, asked_ns=50, at_ns=60).served(3, asked_ns=20, at_ns=30)


def _interrupted() -> RecordBuilder:
    builder = reads(log(group(RecordBuilder(), 1)), 0, 5, member=1)
    builder.status = "interrupted"
    return builder


UNKNOWN: Unknown = {
    "the last owner got nothing": (
        lambda: passing().assigned(1, 0),
        "the group group of 1 got nothing of t-0 after its last assignment, so where it stands is not known",
    ),
    "the log may have lacked them": (
        lambda: reads(
            reads(group(RecordBuilder(), 1).acked(1, 2, 3, 4, 5, 6, at=0).end(log_start=4), 0, 1, member=1),
            4, 5, member=1, session=2,
        ).final(5, 6, at=4, leader_epoch=0),
        "the group group of 1 left out acked records of t-0 below the final log start: whether the log still had them "
        "is not known",
    ),
    "a clock was set back": (
        _in_clock_that_went_back,
        "the clock was set back, so the order of sessions and resets is not known",
    ),
    "the run is not complete": (
        _interrupted,
        "the run is not complete: what the final read did not reach is not known",
    ),
}  # fmt: skip


MUTANTS: tuple[Mutant, ...] = (
    (rule, '(F.col("offset") >= F.col("first")) | ', ""),
    (rule, ' | (F.col("sent_ns") >= F.col("since_ns"))', ""),
    (rule, 'F.array_contains("members", one["consumer"]) & ', ""),
    (rule, 'F.coalesce(returned_above, F.lit(False)) | (F.col("done_ns")', '(F.col("done_ns")'),
    (rule, ' | (F.col("done_ns") < F.col("reset_ns"))', ""),
)


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Records that one group leaves out between two sessions; a new group at the end leaves out nothing."""
    values, columns = range(100, 100 + _RECORDS), {"partition": 8, "leader_epoch": 0}
    b.acked(*values, at=0, partition=8).final(*values, at=0, **columns)
    b.group("passes", 51, 52).group("new", 53).group("to the end", 54)
    b.assigned(51, 8).read(*values[:20], at=0, consumer=51, **columns).assigned(51, 8, event="revoked")
    b.assigned(52, 8).read(*values[20 + n :], at=20 + n, consumer=52, **columns)
    b.assigned(53, 8).reset(53, 60, partition=8).read(*values[60:], at=60, consumer=53, **columns)
    # Nobody reads after its second reset: what was acked before is passed over all the same.
    b.assigned(54, 8).reset(54, 0, partition=8).read(*values[:50], at=0, consumer=54, **columns)
    b.reset(54, 50 + n // 2, partition=8)
    return {KIND: n + n // 2}


class _Session(NamedTuple):
    """Rows of a member in a session, or none: a reset to `begin`."""

    began_ns: int
    ended_ns: int
    begin: int
    end: int
    member: int
    rows: list[Row]


def found_in_record(b: RecordBuilder) -> list[Item]:
    """An item for each group and offset that it passed over; none where a clock was set back."""
    tables = PlacedTables.of(b.tables)
    if clock_went_back(served_marks(tables)):
        return []
    places = {place_of(row) for row in tables["sends"]}
    return [
        (KIND, *place, offset, value)
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
