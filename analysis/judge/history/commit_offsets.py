"""Collects what was committed for groups and what their coordinators served, by the number of the commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from analysis.judge.history.evidence import Row
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
