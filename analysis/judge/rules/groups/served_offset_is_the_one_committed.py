"""A coordinator serves the offset that was committed.

Each commit carries its number as metadata, and an answer shows that number beside an offset. So the two are held
against the journal, which has what was asked for, and not against what Kafka said of itself before. Which broker
answered, when, and what became of the commit does not matter: no coordinator may have that number with another offset.

A commit without a number is not judged. It may be of a copier, of a client that commits on its own, or of a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan


class CommitOf(NamedTuple):
    """What one commit is of."""

    group: str
    topic: str
    partition: int
    commit: int


class FirstAnswer(NamedTuple):
    """The first answer with an offset for a commit, and how many there were."""

    row: Row
    answers: int


class CommittedOffsets(NamedTuple):
    """The offsets that were committed and served: a client that started again may have used a number twice."""

    committed: Mapping[CommitOf, set[int]]
    served: Mapping[tuple[CommitOf, int], FirstAnswer]


class OffsetsOfCommits(Scan[CommittedOffsets]):
    """Collects the offsets of each commit that carries a number."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "commits": ("group", "topic", "partition", "commit", "offset", "status", "broker", "asked_ns")
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._committed: dict[CommitOf, set[int]] = {}
        self._served: dict[tuple[CommitOf, int], FirstAnswer] = {}

    def add(self, rows: Rows) -> None:
        """Add a batch."""
        numbered = np.flatnonzero(rows.known("commit") & rows.known("offset"))
        for row in rows.at(numbered).select(self.columns["commits"]).to_pylist():
            one = CommitOf(row["group"], row["topic"], row["partition"], row["commit"])
            if row.pop("status") != "served":
                self._committed.setdefault(one, set()).add(row["offset"])
            elif (before := self._served.get((one, row["offset"]))) is None:
                self._served[one, row["offset"]] = FirstAnswer(row, 1)
            else:
                self._served[one, row["offset"]] = before._replace(answers=before.answers + 1)

    def result(self) -> CommittedOffsets:
        """Return the offsets."""
        return CommittedOffsets(self._committed, self._served)


def _check(judged: Judged) -> Finding:
    committed, served = judged.record.seen(OffsetsOfCommits)
    cases = Cases()
    for (one, offset), answer in served.items():
        asked = committed.get(one)
        if asked is None:
            cases.add(answer.row, why="the record does not have this commit")
        else:
            row = answer.row | {"committed": sorted(asked), "answers": answer.answers}
            cases.add(None if offset in asked else row)
    return cases.finding()


RULE = Clause(
    kip="Kafka's promise",
    check=_check,
    scans=(OffsetsOfCommits,),
    applies=lambda judged: judged.record.has("commits"),
    reads_timeline=False,
    parts=("commits",),
    needed="never",
    is_shown_without_steps=True,
    unknown_when=(
        "a coordinator served a commit that the record does not have. Only in records with `commits/`; offsets "
        "that copiers, other clients and people commit are not judged"
    ),
    example="""
        A member committed offset 1. Its coordinator serves 6 for that commit.
        commits: status=acked commit=1 offset=1; status=served broker=1 commit=1 offset=6
        gives: offset=6 commit=1 committed=1 answers=1
    """,
)
