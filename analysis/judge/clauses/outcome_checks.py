"""Checks the main promise: no committed loss and no HW regression unless allowed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.judge.clauses.findings import Finding, Row, finding
from analysis.judge.history.evidence import Attribution
from ebbtide.record.verdict import LossEvent, RecordedElection


class AttributedAnomaly(msgspec.Struct, frozen=True, kw_only=True):
    """One lost part or one HW regression in plain values, with its attribution.

    `oldest_s` and `lost_by` of lost records are as in `ebbtide.record.verdict.Loss`.
    """

    topic: str
    partition: int
    what: Row
    count: int
    committed: bool
    attribution: Attribution
    oldest_s: float | None = None
    lost_by: LossEvent | None = None


def no_committed_loss_unless_allowed(
    losses: Sequence[AttributedAnomaly], vanished: Sequence[AttributedAnomaly], *, acked: int, lost_unknown: str | None
) -> Finding:
    """KIP-966, Motivation: a committed record survives min ISR - 1 unclean shutdowns.

    Every committed loss needs an election that the protocol permits (the causes). The clause is
    unknown without a final read, or where evidence is missing to attribute a loss. Vanished records
    (`vanished`) were committed, whether or not a producer received an answer.
    """
    committed = [one for one in losses if one.committed]
    return _finding_on_causes([*committed, *vanished], exercised=acked, kind_unknown=lost_unknown)


def no_hw_regression_unless_allowed(
    regressions: Sequence[AttributedAnomaly], *, observed: bool, regression_unknown: str | None
) -> Finding:
    """KIP-966: no HW goes back after at most min ISR - 1 unclean shutdowns.

    Elect "without data loss or HWM moving backward when we only have min ISR - 1 unclean
    shutdowns".
    """
    return _finding_on_causes(regressions, exercised=int(observed), kind_unknown=regression_unknown)


def _finding_on_causes(blamed: Sequence[AttributedAnomaly], *, exercised: int, kind_unknown: str | None) -> Finding:
    violations = [_row(one) for one in blamed if one.attribution.cause == "unexplained"]
    undecided = [_row(one) for one in blamed if one.attribution.cause is None]
    if kind_unknown is not None:
        undecided.append({"why": kind_unknown})
    return finding(exercised=exercised, violations=violations, unknown=undecided)


def _row(one: AttributedAnomaly) -> Row:
    return {"topic": one.topic, "partition": one.partition, **one.what, "count": one.count, "why": one.attribution.why}


def stale_join_rows(losses: Sequence[AttributedAnomaly]) -> list[Row]:
    """Return the losses that violate KIP-903: its check let a stale ISR join pass."""
    return [_row(one) for one in losses if one.attribution.breaks_kip_903]


def election_of(attribution: Attribution) -> RecordedElection | None:
    """Return the guilty election as verdict.json names it."""
    return attribution.election.as_recorded if attribution.election is not None else None


def election_in_brackets(attribution: Attribution) -> str:
    """Return the guilty election in brackets, to end a sentence; empty if none."""
    one = attribution.election
    return f" (election of broker {one.leader}, leader epoch {one.epoch})" if one is not None else ""
