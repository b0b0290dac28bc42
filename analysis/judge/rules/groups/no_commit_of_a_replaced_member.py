"""KIP-848: a coordinator refuses a commit of a member whose partition another member has taken over since.

A commit of another member was served, and after it one that had been sent before. The other member could commit only
once the partition was its own, in a later generation or member epoch of the group. So what the first member had sent
before that had to be refused from then on, whatever became of it. One coordinator must have given both answers, in one
leader epoch: a new coordinator may serve an older commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from ebbtide.scenario.internal_topics import OFFSETS_TOPIC

_ABOUT = ("group", "topic", "partition")
_LAG_NS = 10_000_000_000
"""A coordinator that is new for so long serves what it has."""


class _CommitRows(Scan[Sequence[dict[str, Any]]]):
    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "commits": (*_ABOUT, "commit", "offset", "consumer", "broker", "offsets_partition", "status", "asked_ns")
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._rows: list[dict[str, Any]] = []

    def add(self, rows: Rows) -> None:
        self._rows += rows.at(np.flatnonzero(rows.known("commit"))).select(self.columns["commits"]).to_pylist()

    def result(self) -> Sequence[dict[str, Any]]:
        return sorted(self._rows, key=lambda row: row["asked_ns"])


def _check(judged: Judged) -> Finding:
    made: dict[tuple[Any, ...], dict[str, Any] | None] = {}
    served: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in judged.record.seen(_CommitRows):
        register = tuple(row[name] for name in _ABOUT)
        if row["status"] == "served":
            served.setdefault((*register, row["broker"]), []).append(row)
        else:  # a client that started again may have used a number twice
            made[*register, row["commit"]] = None if (*register, row["commit"]) in made else row
    cases = Cases()
    for place, answers in served.items():
        for before, after in pairwise(answers):
            new, old = (made.get((*place[:-1], one["commit"])) for one in (before, after))
            is_of_two = new is not None and old is not None and new["consumer"] != old["consumer"]
            if new is not None and old is not None and is_of_two and _is_one_epoch(judged.record, before, after):
                seen: Row = dict(zip((*_ABOUT, "broker"), place, strict=True))
                seen |= {"offset": after["offset"], "offset_before": before["offset"], "sent_ns": old["asked_ns"]}
                cases.add(seen if old["asked_ns"] < new["asked_ns"] else None)
    return cases.finding()


def _is_one_epoch(record: Record, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether nobody else began to coordinate between two answers, or shortly before."""
    states = record.timeline.states(OFFSETS_TOPIC, before["offsets_partition"])
    begun = [later.at_ns for earlier, later in pairwise(states) if earlier.leader_epoch != later.leader_epoch]
    return bool(states) and not any(before["asked_ns"] - _LAG_NS <= at_ns <= after["asked_ns"] for at_ns in begun)


RULE = Clause(
    kip="KIP-848",
    check=_check,
    applies=lambda judged: judged.record.has("commits"),
    parts=("commits",),
    needed="never",
    compares_times=True,
    unknown_when="`commits/` is not as the run left it. Only where several members commit",
    example="""
        Member 1 sent commit 1 before member 2 sent commit 2. The coordinator serves 2, and then 1.
        partitions: topic=__consumer_offsets
        commits: status=unknown commit=1 offset=5 consumer=1 at=30; status=acked commit=2 offset=9 consumer=2 at=31;
          status=served broker=1 commit=2 offset=9 at=32; status=served broker=1 commit=1 offset=5 at=33
        gives: offset=5 offset_before=9
    """,
)
