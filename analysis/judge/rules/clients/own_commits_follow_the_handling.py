"""Your application's promise: a group commits an offset after it has handled the records below that offset.

A test says with `chaos.handled` which records were handled, and when. A commit covers a record if its offset is higher.
The first acked commit that covers a record must not be asked for before the record was handled. An offset of a
transaction counts if the transaction committed, and with it the results: such a record must be handled at all.

A record counts if the final log shows it to a read_committed consumer, and if it is in a batch of its leader epoch that
a client had got before the commit. So a lost record counts for nobody, and neither does the one that stands in its
place. Below the lowest record that was handled for a group on a partition, the group may not have begun: nothing counts
there. Records that no client got are not judged.

Where several groups commit on one partition, each call must name its group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding
from analysis.record.traffic import NEVER_NS, Place, Traffic, WireRow, sort_by_group
from ebbtide.handled import HandledRecord
from ebbtide.shown_text import plural


class _Covering(NamedTuple):
    """A commit of a group, by when it was asked for; `transactional`: with the results, in a transaction."""

    asked_ns: int
    offset: int
    transactional: bool


def _check(judged: Judged) -> Finding:
    traffic = judged.record.traffic
    assert traffic is not None
    handled: dict[Place, list[HandledRecord]] = defaultdict(list)
    for said in judged.record.rows("handled", HandledRecord):
        handled[said.topic, said.partition].append(said)
    topics = {place[0] for place in handled}
    commits = {
        at: covering for at, rows in sort_by_group(traffic.commits).items() if (covering := _covering(traffic, rows))
    }
    violations, unknown, seen = list[Row](), list[Row](), list[Row]()
    for group, place in sorted(at for at in commits if at[1][0] in topics):
        why = judged.record.why_gone_unknown(traffic, place)
        groups = {name for name, other in commits if other == place}
        if why is None and len(groups) > 1 and any(one.group is None for one in handled[place]):
            why = f"{place[0]}-{place[1]} was handled for one of the groups {', '.join(sorted(groups))}: pass group=..."
        if why is not None:
            unknown.append({"why": why})
            continue
        theirs: dict[int, list[int | None]] = defaultdict(list)
        for one in handled[place]:
            if one.group in (None, group):
                theirs[one.offset].append(one.at_ns)
        row = _judge(traffic, group, place, commits[group, place], theirs)
        (violations if "says" in row else unknown if "why" in row else seen).append(row)
    if not (violations or unknown or seen):
        unknown.append({"why": "no group got an ack for a commit on a topic whose records were handled"})
    found = finding(exercised=len(seen), violations=violations, unknown=unknown)
    return Finding(status="holds", evidence=tuple(seen)) if found.status == "holds" else found


def _covering(traffic: Traffic, rows: Sequence[WireRow]) -> Sequence[_Covering]:
    """Return the acked commits of a group that cover more than those before them, in order."""
    made = [
        _Covering(row.since_ns, row.offset or 0, row.kind == "txn-commit") for row in rows if traffic.is_in_force(row)
    ]
    higher: list[_Covering] = []
    for one in sorted(made):
        if not higher or one.offset > higher[-1].offset:
            higher.append(one)
    return higher


def _judge(
    traffic: Traffic,
    group: str,
    place: Place,
    commits: Sequence[_Covering],
    handled: Mapping[int, Sequence[int | None]],
) -> Row:
    """Return a row that `says` what is wrong, or has the reason `why` nothing is known, or counts what is right."""
    log, name = traffic.final[place], f"{place[0]}-{place[1]}"
    begins = min(handled, default=None)
    ends = [one.offset for one in commits]
    early, nobody, untimed = list[int](), list[int](), 0
    for offset, got_ns in _got(traffic, place):
        record = log.records[offset]
        at = bisect_left(ends, offset + 1)
        if at == len(ends) or log.fate(record) != "shown" or got_ns >= commits[at].asked_ns:
            continue
        if begins is None:
            return {"why": f"no record of {name} was handled, and the group {group} committed offset {ends[-1]:,}"}
        times = [at_ns for at_ns in handled.get(offset, ()) if at_ns is not None]
        if offset < begins:
            continue
        if offset not in handled:
            nobody.append(offset)
        elif len(times) < len(handled[offset]):
            untimed += 1
        elif min(times) > commits[at].asked_ns and not commits[at].transactional:
            early.append(offset)
    twice = sum(len(times) > 1 for times in handled.values())
    row: Row = {"group": group, "topic": place[0], "partition": place[1], "handled": len(handled), "twice": twice}
    if early or nobody:
        both = sorted([*early, *nobody])
        says = (
            f"your group {group} committed {plural(len(both), 'offset')} of {name} before their records were handled, "
            f"from offset {both[0]:,} on; {len(nobody):,} of these were handled by nobody"
        )
        says += f"; {plural(twice, 'record')} more than once" if twice else ""
        return row | {"early": len(both), "by_nobody": len(nobody), "offset": both[0], "says": says}
    return row | {"why": f"{untimed:,} records of {name} were handled without a time"} if untimed else row


def _got(traffic: Traffic, place: Place) -> Iterator[tuple[int, int]]:
    """Yield each record of the final log that a client got, and when it was got first."""
    log, first = traffic.final[place], dict[int, int]()
    for batch in sorted(traffic.fetched.get(place, ()), key=lambda row: row.until_ns):
        for offset in range(batch.offset or 0, (batch.last_offset or 0) + 1):
            record = log.records.get(offset)
            if offset not in first and record is not None and record.leader_epoch == batch.leader_epoch:
                first[offset] = batch.until_ns
    return iter(sorted((offset, got_ns) for offset, got_ns in first.items() if got_ns < NEVER_NS))


RULE = Clause(
    kip="Your application",
    check=_check,
    applies=lambda judged: judged.record.traffic is not None and judged.record.has("handled"),
    reads_timeline=False,
    parts=("wire", "handled"),
    unknown_when=(
        "no group got an ack for a commit, several committed and a call names none, or a partition has no final read, "
        "is compacted or was made again. Only with [`chaos.handled`](own-clients.md#what-your-test-handled)"
    ),
    example="""
        A client of the user's own gets offsets 0 and 1, commits 2, and handles only offset 0, after that.
        setting: published=Heartbeat
        wire: kind=fetch offset=0 last_offset=1 leader_epoch=0 at=20; kind=commit group=g offset=2 status=acked at=21;
          kind=final offset=0 leader_epoch=0; kind=final offset=1 leader_epoch=0;
          kind=final-log offset=0 high_watermark=2
        handled: offset=0 at=22
        gives: group=g early=2 by_nobody=1 offset=0
    """,
)
