"""A new coordinator serves each commit that it knew to be committed when it was elected.

A coordinator of Kafka 4.x serves what is below its HW, which lags in a new leader (docs/findings/
stale-committed-offset.md). How far it may lag follows from the commits that the coordinator before it had acked:

    commit 1 acked; then commit 2 sent and acked; then commit 3 sent and acked; then the election

The new leader was in the ISR, so it had fetched commit 2 when that was acked, and asked for what follows. It got commit
3 in answer to this fetch or a later one, and with it a HW above commit 1, which had been acked before. So its HW covers
commit 1, and it serves commit 1 or a newer one. All commits of one partition of `__consumer_offsets` count.

- Both leader epochs follow each other, and the new leader was in the ISR in each state of the old one and in the state
  before it.
- It did not register again since the old epoch began: a broker that starts takes its HW from its disk.

Whether it has served a HW since then does not matter. Nobody's fault is only what lies above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import ClassVar, NamedTuple

import numpy as np

from analysis.causes.evidence import NEVER
from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Compared, Finding, Judged, finding
from analysis.record.clock_steps import CLOCKS_AGREE_NS
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from analysis.rows.policies import unsafe_property
from ebbtide.record.rows import PartitionState
from ebbtide.record.tables import SENT_ONCE_NS
from ebbtide.scenario.internal_topics import OFFSETS_TOPIC

_Register = tuple[str, str, int]


class _Failover(NamedTuple):
    """Broker `broker` coordinated from `since_ns` until `until_ns`; before that, another did, since `before_ns`."""

    broker: int
    leader_epoch: int
    before_ns: int
    since_ns: int
    until_ns: int


class FindDroppedCommits(Scan[Compared]):
    """Compares what new coordinators answered with what had been acked before."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "commits": (
            *("group", "topic", "partition", "commit", "offset", "broker", "offsets_partition", "status"),
            *("asked_ns", "done_ns"),
        )
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        places = [place for place in record.timeline.partitions if place[0] == OFFSETS_TOPIC]
        self._failovers = {partition: [*_failovers(record, partition)] for _, partition in places}
        self._rows: dict[int, list[Row]] = {}

    def add(self, rows: Rows) -> None:
        """Keep the commits and answers of partitions that had another coordinator."""
        for row in rows.at(np.flatnonzero(rows.known("done_ns"))).select(self.columns["commits"]).to_pylist():
            if self._failovers.get(row["offsets_partition"]):
                self._rows.setdefault(row["offsets_partition"], []).append(row)

    def result(self) -> Compared:
        """Return the answers."""
        compared, lacking = 0, list[Row]()
        for partition, failovers in self._failovers.items():
            rows = self._rows.get(partition, [])
            for one in failovers if rows else ():
                for known, served, made in _answers(rows, one):
                    compared += 1
                    if made is None or made["done_ns"] < known["asked_ns"]:
                        shown = {name: known[name] for name in ("commit", "offset", "asked_ns", "done_ns")}
                        place = {name: served[name] for name in ("group", "topic", "partition", "broker")}
                        about = {"leader_epoch": one.leader_epoch, "known": shown, "served": served["commit"]}
                        lacking.append({**place, **about, "answered_ns": served["done_ns"]})
        return Compared(compared, lacking)


def _answers(rows: Sequence[Row], one: _Failover) -> Iterator[tuple[Row, Row, Row | None]]:
    """Yield the newest commit that a coordinator must know, its answer, and the commit that it shows; None: nothing."""
    until_ns = one.since_ns - CLOCKS_AGREE_NS
    writes = [row for row in rows if row["status"] != "served" and row["commit"] is not None]
    acked = [row for row in writes if row["status"] == "acked" and row["asked_ns"] > one.before_ns + CLOCKS_AGREE_NS]
    for _ in range(3):
        known = [row for row in acked if row["done_ns"] < until_ns]
        until_ns = max((row["asked_ns"] for row in known), default=0)
    newest = {_register(row): row for row in sorted(known, key=lambda row: row["asked_ns"])}
    by_number: dict[tuple[_Register, int], list[Row]] = {}
    for row in writes:
        by_number.setdefault((_register(row), row["commit"]), []).append(row)
    for row in rows:
        is_answer = row["status"] == "served" and row["broker"] == one.broker and _register(row) in newest
        if is_answer and one.since_ns <= row["asked_ns"] and row["done_ns"] < one.until_ns:
            made = by_number.get((_register(row), row["commit"]), [])
            if row["offset"] is None:
                yield newest[_register(row)], row, None
            elif len(made) == 1 and made[0]["status"] == "acked" and _took_ns(made[0]) < SENT_ONCE_NS:
                yield newest[_register(row)], row, made[0]


def _took_ns(row: Row) -> int:
    return int(str(row["done_ns"])) - int(str(row["asked_ns"]))


def _register(row: Row) -> _Register:
    return str(row["group"]), str(row["topic"]), int(str(row["partition"]))


def _failovers(record: Record, partition: int) -> Iterator[_Failover]:
    """Yield the changes of coordinators at which the new one had followed the old one all the time."""
    if (record.manifest.log_dirs or 1) > 1:
        return  # a replica that moved to another directory has the HW of its copy
    states = record.timeline.states(OFFSETS_TOPIC, partition)
    reigns = [*_reigns(states)]
    for number, reign in enumerate(reigns[1:], 1):
        before, broker = reigns[number - 1], reign[0].leader
        first = states.index(before[0])
        followed = states[max(first - 1, 0) : states.index(reign[0])]
        is_whole = not any(
            later.lacks_record_since(earlier)
            for earlier, later in zip(followed, [*followed[1:], reign[0]], strict=True)
        )
        begins_ns = followed[0].at_ns
        after = (state.at_ns for state in states if state.metadata_offset > reign[-1].metadata_offset)
        ends_ns = min(after, default=NEVER)
        again = any(
            one.broker == broker and one.event == "registered" and begins_ns <= one.at_ns <= ends_ns
            for one in record.timeline.brokers
        )
        if is_whole and not again and broker != before[0].leader and all(broker in one.isr for one in followed):
            until_ns = ends_ns - CLOCKS_AGREE_NS
            yield _Failover(broker, reign[0].leader_epoch, before[0].at_ns, reign[0].at_ns, until_ns)


def _reigns(states: Sequence[PartitionState]) -> Iterator[list[PartitionState]]:
    """Yield the states of each leader epoch that has a leader."""
    for _, of_epoch in groupby(states, key=lambda state: state.leader_epoch):
        if reign := [state for state in of_epoch if state.leader >= 0]:
            yield reign


def _check(judged: Judged) -> Finding:
    found = judged.record.seen(FindDroppedCommits)
    unsafe = unsafe_property(judged.record)
    doubt = f"the scenario sets {unsafe}, so that offsets may be missing without a loss" if unsafe else None
    return finding(exercised=found.cases, violations=found.breaches, doubt=doubt)


RULE = Clause(
    kip="Kafka's promise",
    check=_check,
    scans=(FindDroppedCommits,),
    applies=lambda judged: judged.record.has("commits"),
    parts=("commits",),
    needed="never",
    compares_times=True,
    unknown_when=(
        "a commit is missing, and brokers had a setting by which offsets may expire. Only where the new coordinator "
        "was in the ISR during the epoch of the old one, and was not restarted"
    ),
    example="""
        Broker 1 acks offsets 1, 2 and 3 of group g, one after the other. Broker 2 leads then, and serves nothing.
        partitions: leader=1; topic=__consumer_offsets at=1 partition_epoch=0;
          topic=__consumer_offsets at=40 leader=2 isr=2,3
        commits: status=acked commit=1 offset=1 at=30; status=acked commit=2 offset=2 at=31;
          status=acked commit=3 offset=3 at=32; status=served broker=2 at=41
        gives: broker=2 leader_epoch=1 served=-
    """,
)
