"""Says which commits of groups were lost, in figures, rows and a sentence."""

from __future__ import annotations

import msgspec

from ebbtide.record.verdict import CommitLoss, Verdict, counts_by_kind
from ebbtide.rules.table import COMMIT_BACK, COMMIT_LOST, COMMITS_KEPT

_FATE = {COMMIT_LOST: "not given back", COMMIT_BACK: "served, and served no more"}


class CommitRow(msgspec.Struct, frozen=True, kw_only=True):
    """Commits of one group and partition that one election lost."""

    group: str
    partition: str
    fate: str
    count: str
    offset: str
    served: str
    cause: str
    coordinator: str
    election: str


def commit_rows(verdict: Verdict) -> tuple[CommitRow, ...]:
    """Return a row for each entry of the verdict's `commits`."""
    return tuple(map(_row, verdict.commits))


def _row(one: CommitLoss) -> CommitRow:
    return CommitRow(
        group=one.group,
        partition=f"{one.topic}-{one.partition}",
        fate=_FATE.get(one.kind, one.kind),
        count=f"{one.count:,}",
        offset=f"{one.offset:,}",
        served="nothing" if one.served is None else f"{one.served:,}",
        cause=one.cause,
        coordinator=f"__consumer_offsets-{one.offsets_partition}",
        election="-" if one.election is None else str(one.election),
    )


def count_lost_commits(verdict: Verdict) -> str:
    """Return how many acked commits were lost; `-` where the record has none, `?` where that is not known."""
    status = next((one.status for one in verdict.properties if one.name == COMMITS_KEPT), None)
    if status is None:
        return "-"
    lost = counts_by_kind(verdict.anomalies).get(COMMIT_LOST, 0)
    return "?" if status == "unknown" and not lost else f"{lost:,}"
