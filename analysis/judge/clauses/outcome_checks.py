"""The clauses that the KIPs exist for: nothing committed is lost, and no HW goes back, unless a rule allows it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.judge.clauses.findings import Finding, Row, finding
from analysis.judge.history.evidence import Attribution
from ebbtide.record.verdict import RecordedElection


class Blamed(msgspec.Struct, frozen=True, kw_only=True):
    """One lost part or one regression in plain values, with its attribution."""

    topic: str
    partition: int
    what: Row
    count: int
    committed: bool
    attribution: Attribution


def no_committed_loss_unless_allowed(
    losses: Sequence[Blamed], gone: Sequence[Blamed], *, acked: int, lost_unknown: str | None
) -> Finding:
    """KIP-966, Motivation: a committed record survives min ISR - 1 unclean shutdowns.

    Every committed loss needs an election that the protocol permits (the causes). Not decided without a final
    read, or where a loss could not be attributed for want of evidence. What is `gone` was committed whoever knew of it.
    """
    committed = [one for one in losses if one.committed]
    return _allowed([*committed, *gone], exercised=acked, kind_unknown=lost_unknown)


def no_hw_regression_unless_allowed(
    regressions: Sequence[Blamed], *, observed: bool, regression_unknown: str | None
) -> Finding:
    """KIP-966: elect "without data loss or HWM moving backward when we only have min ISR - 1 unclean shutdowns"."""
    return _allowed(regressions, exercised=int(observed), kind_unknown=regression_unknown)


def _allowed(blamed: Sequence[Blamed], *, exercised: int, kind_unknown: str | None) -> Finding:
    violations = [_row(one) for one in blamed if one.attribution.cause == "unexplained"]
    undecided = [_row(one) for one in blamed if one.attribution.cause is None]
    if kind_unknown is not None:
        undecided.append({"why": kind_unknown})
    return finding(exercised=exercised, violations=violations, unknown=undecided)


def _row(one: Blamed) -> Row:
    return {"topic": one.topic, "partition": one.partition, **one.what, "count": one.count, "why": one.attribution.why}


def stale_join_rows(losses: Sequence[Blamed]) -> list[Row]:
    """Losses that an ISR join explains only if KIP-903 let it pass though in force: violations of that clause."""
    return [_row(one) for one in losses if one.attribution.breaks_kip_903]


def election_of(attribution: Attribution) -> RecordedElection | None:
    """The guilty election as verdict.json names it."""
    return attribution.election.named if attribution.election is not None else None


def by_election(attribution: Attribution) -> str:
    """The guilty election in brackets, to end a sentence; empty where there is none."""
    one = attribution.election
    return f" (election of broker {one.leader}, leader epoch {one.epoch})" if one is not None else ""
