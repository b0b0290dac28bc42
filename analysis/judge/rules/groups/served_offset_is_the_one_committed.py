"""A coordinator serves the offset that was committed.

Each commit carries its number as metadata, and an answer shows that number beside an offset. So the two are held
against the journal, which has what was asked for, and not against what Kafka said of itself before. Which broker
answered, when, and what became of the commit does not matter: no coordinator may have that number with another offset.

A commit without a number is not judged. It may be of a copier, of a client that commits on its own, or of a person.
"""

from __future__ import annotations

from analysis.judge.history.commit_offsets import OffsetsOfCommits
from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding


def _check(judged: Judged) -> Finding:
    committed, served = judged.record.seen(OffsetsOfCommits)
    violations: list[Row] = []
    unknown: list[Row] = []
    for (one, offset), answer in served.items():
        asked = committed.get(one)
        if asked is None:
            unknown.append(answer.row | {"why": "the record does not have this commit"})
        elif offset not in asked:
            violations.append(answer.row | {"committed": sorted(asked), "answers": answer.answers})
    return finding(exercised=len(served), violations=violations, unknown=unknown)


RULE = Clause(
    kip="Kafka's promise",
    check=_check,
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
