"""Kafka's promise: a group of the user's own gets back the offset that it committed last.

What its coordinator serves at the end is held against what was acked, for each partition. It must be a commit that may
be the last: no other was acked that was asked for after this one's answer. A commit without an answer, or one that the
coordinator refused, may have been made. An offset of a transaction counts from its EndTxn on, if that was answered with
a commit or not at all. Its marker may be written later: only the next transaction of the same producer shows that it
was.

A served offset that no client committed through the ports is somebody else's: the clause is unknown. So it is where a
log lost records, or an election left ISR and ELR: the commit may be lost as Kafka allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.judge.rules.lossy import why_lossy
from analysis.record.traffic import NEVER_NS, Place, Traffic, WireRow, sort_by_group
from analysis.rows.policies import unsafe_property
from ebbtide.shown_text import plural

_DELETING = ("DeleteGroups", "OffsetDelete", "DeleteTopics")
"""Requests that take commits away, and that the relay only counts."""


class _Commit(NamedTuple):
    """A commit that was made between two moments, or may have been; `is_acked`: its client was told so."""

    offset: int
    is_acked: bool
    asked_ns: int
    done_ns: int


def _check(judged: Judged) -> Finding:
    record, traffic = judged.record, judged.record.traffic
    assert traffic is not None
    lossy = why_lossy(record)
    cases = Cases()
    for (group, place), rows in sorted(sort_by_group(traffic.commits).items()):
        commits = [*_commits(traffic, rows)]
        acked = sum(one.is_acked for one in commits)
        if not acked:
            continue
        if group not in traffic.served:
            why = traffic.facts.no_final_read.get(f"group {group}", "nobody asked at the end")
            cases.add({}, why=f"what the group {group} has committed is not known: {why}")
            continue
        served = traffic.served[group].get(place)
        at: Row = {"group": group, "topic": place[0], "partition": place[1], "served": served}
        last_ns = max(one.asked_ns for one in commits if one.is_acked)
        possible = {one.offset for one in commits if one.done_ns >= last_ns}
        if served in possible:
            cases.add()
        elif (gone := record.why_gone_unknown(traffic, place)) is not None:
            cases.add(at, why=gone)  # its offsets may have gone with the topic
        elif served is not None and served not in {row.offset for row in rows}:
            where = f"{place[0]}-{place[1]}"
            cases.add(at, why=f"the group {group} has the offset {served} of {where}: not by your clients")
        else:
            newest = max((one for one in commits if one.is_acked), key=lambda one: one.asked_ns).offset
            says = _says(group, place, acked, newest, served)
            if lossy is None:
                cases.add(at | {"committed": newest, "says": says})
            else:
                cases.add(at | {"committed": newest}, why=f"{says}; {lossy}")
    doubts = [*traffic.unread, *(f"a client sent {name}" for name in _DELETING if name in traffic.facts.unrecorded)]
    if unsafe := unsafe_property(record):
        doubts.append(f"the scenario sets {unsafe}, so that offsets may be missing without a loss")
    return cases.finding(doubts[0] if doubts else None)


def _commits(traffic: Traffic, rows: Sequence[WireRow]) -> Iterator[_Commit]:
    """Yield what was, or may have been, committed."""
    for row in rows:
        if row.kind == "commit":
            yield _Commit(row.offset or 0, row.status == "acked", row.since_ns, row.until_ns)
            continue
        is_acked, end = row.status == "acked", traffic.end_of(row)
        if end is None:
            asked = takewhile(lambda one: one.kind != "init-producer", traffic.asked_since(row))
            if (unanswered := next((one for one in asked if one.commits), None)) is not None:
                yield _Commit(row.offset or 0, False, unanswered.since_ns, NEVER_NS)
        elif end.commits:
            later = (one.until_ns for one in traffic.asked_since(end) if one.status == "acked")
            yield _Commit(row.offset or 0, is_acked, end.since_ns, next(later, NEVER_NS))


def _says(group: str, place: Place, acked: int, newest: int, served: int | None) -> str:
    has = "no offset" if served is None else f"offset {served:,}"
    return (
        f"your group {group} got acks for {plural(acked, 'commit')} of {place[0]}-{place[1]}, the last of offset "
        f"{newest:,}, and its coordinator has {has} at the end; Kafka promises to keep a commit while one in-sync "
        f"replica of __consumer_offsets survives"
    )


RULE = Clause(
    kip="Kafka's promise",
    check=_check,
    applies=lambda judged: judged.record.traffic is not None and bool(judged.record.traffic.commits),
    reads_timeline=False,
    parts=("wire",),
    unknown_when=(
        "no coordinator answered for the group at the end, somebody else committed for it, offsets may have been "
        "deleted, have expired or be lost as Kafka allows, or not all that clients sent could be read. Only with "
        "groups on [published ports](record.md#your-own-clients)"
    ),
    example="""
        The coordinator acked offsets 5 and 9 of group g to a client of the user's own. At the end it serves 5.
        setting: published=Heartbeat
        partitions: leader=1
        wire: kind=commit group=g offset=5 status=acked at=20; kind=commit group=g offset=9 status=acked at=21;
          kind=final-commit group=g offset=5; kind=final-group group=g;
          kind=final-log offset=0 high_watermark=10
        gives: group=g served=5 committed=9
    """,
)
