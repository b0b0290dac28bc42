"""Asks whether a group may not have got back a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from analysis.rows.question import KindAnswer, KindQuestion, RunSums

COMMITS_MAX = 1_000_000
"""Above so many rows of commits nothing is asked, and the rules look at all of them."""


class _Register(NamedTuple):
    """What one committed offset is of."""

    group: str
    topic: str
    partition: int


class _CommitRow(msgspec.Struct, frozen=True):
    """One row of commits."""

    group: str
    topic: str
    partition: int
    status: str
    asked_ns: int
    commit: int | None = None
    offset: int | None = None
    done_ns: int | None = None


def may_have_lost_commits(commits: pa.Table | None) -> bool:
    """Return whether the answer may be yes.

    Who coordinated does not matter here, nor whether the answer is settled.
    """
    if commits is None:
        return False
    if len(commits) > COMMITS_MAX:
        return True
    registers: dict[_Register, list[_CommitRow]] = {}
    for row in msgspec.convert(commits.to_pylist(), list[_CommitRow]):
        registers.setdefault(_Register(row.group, row.topic, row.partition), []).append(row)
    return any(_may_lose(rows) for rows in registers.values())


def _may_lose(rows: Sequence[_CommitRow]) -> bool:
    """Return whether an answer of one register is older than what was acked or shown before it was asked for."""
    writes: dict[int, list[_CommitRow]] = {}
    for row in rows:
        if row.status != "served" and row.commit is not None:
            writes.setdefault(row.commit, []).append(row)
    sent = {commit: min(row.asked_ns for row in some) for commit, some in writes.items()}
    acked = {
        commit: max(row.done_ns or 0 for row in some)
        for commit, some in writes.items()
        if all(row.status == "acked" and row.done_ns is not None for row in some)
    }
    answers = [row for row in rows if row.status == "served" and row.done_ns is not None]
    shown = [(row.done_ns or 0, sent[row.commit]) for row in answers if row.commit in sent]
    seen = sorted([(done, sent[commit]) for commit, done in acked.items()] + shown)
    done = np.array([one for one, _ in seen], np.int64)
    newest = np.maximum.accumulate(np.array([one for _, one in seen], np.int64)) if seen else done
    for row in answers:
        before = int(np.searchsorted(done, row.asked_ns))
        if not before:
            continue
        expected = newest[before - 1]
        if row.offset is None or (row.commit is not None and acked.get(row.commit, expected) < expected):
            return True
    return False


class CommitsAsked(KindQuestion):
    """Is there an answer of a coordinator without, or with an older commit than, what was acked or shown before?"""

    whole_tables = ("watermarks", "commits")

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the answer, of which no rows are chosen."""
        return KindAnswer(is_possible=may_have_lost_commits(summed.commits))
