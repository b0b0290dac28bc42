"""Holds what one check found, and the one rule by which its cases merge; and how states and anomalies are evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from analysis.judge.history.evidence import AnyAnomaly, Row
from analysis.reconcile.model import ShownGroup
from analysis.record.elections import ElectionEvent
from ebbtide.record.rows import PartitionState
from ebbtide.record.verdict import PropertyStatus

NOT_IN_EVIDENCE = "a record between is not in the evidence"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a check on some part of the run, with the rows that show it.

    `cases` counts them where one row stands for several or not all are listed; None: one case a
    row.
    """

    status: PropertyStatus
    evidence: tuple[Row, ...] = ()
    cases: int | None = None


def finding(
    *,
    exercised: int,
    violations: Sequence[Row],
    unknown: Sequence[Row] = (),
    cases: int | None = None,
    doubt: str | None = None,
) -> Finding:
    """Merge the cases of a check into one finding: violated, unknown, then holds.

    `exercised` counts the cases that the check looked at. The rows of the worst status are the
    evidence. `cases` counts the violations where that differs from the number of rows. `doubt` says why the violations
    may be none: they are unknown then.
    """
    if doubt is not None:
        unknown = [*unknown, *(row | {"why": doubt} for row in violations)]
        violations = ()
    if violations:
        return Finding(status="violated", evidence=tuple(violations), cases=cases)
    if unknown:
        return Finding(status="unknown", evidence=tuple(unknown))
    return Finding(status="holds" if exercised else "not-exercised")


def unknown_finding(why: str) -> Finding:
    """Return the finding of a check that could not be made."""
    return Finding(status="unknown", evidence=({"why": why},))


def state_row(state: PartitionState, **more: object) -> Row:
    """Return a partition state as evidence; its sets are sorted."""
    return {
        "metadata_offset": state.metadata_offset,
        "topic": state.topic,
        "partition": state.partition,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
        "isr": sorted(state.isr),
        "elr": sorted(state.elr),
        "last_known_elr": sorted(state.last_known_elr),
        "leader_recovery_state": state.leader_recovery_state,
        **more,
    }


def election_row(elected: ElectionEvent, **more: object) -> Row:
    """Return an election as evidence: the state that it made and the state before it."""
    before = elected.before
    return state_row(
        elected.after,
        road=elected.road,
        isr_before=sorted(before.isr),
        elr_before=sorted(before.elr),
        last_known_elr_before=sorted(before.last_known_elr),
        **more,
    )


def finding_on_causes(blamed: Sequence[AnyAnomaly], *, exercised: int, kind_unknown: str | None) -> Finding:
    """Return a violation for each anomaly that nothing explains; one that may be a violation is unknown."""
    violations = [cause_row(one) for one in blamed if one.attribution.cause == "unexplained"]
    undecided = [cause_row(one) for one in blamed if one.attribution.cause is None and not one.attribution.is_allowed]
    if kind_unknown is not None:
        undecided.append({"why": kind_unknown})
    return finding(exercised=exercised, violations=violations, unknown=undecided)


def cause_row(one: AnyAnomaly) -> Row:
    """Return an anomaly as evidence, with the reason of its cause."""
    return {
        **one.items.log._asdict(),
        **one.items.evidence,
        "count": one.items.count,
        "why": one.attribution.why,
    }


def client_row(one: ShownGroup) -> Row:
    """Return items of a kind on one partition as evidence."""
    return {"topic": one.topic, "partition": one.partition, "count": one.count, **one.first}


def unknown_rows(kind: str, exercised: int, unknown_kinds: Mapping[str, str]) -> list[Row]:
    """Return why a kind is unknown as evidence, if it matters."""
    return [{"why": unknown_kinds[kind]}] if exercised and kind in unknown_kinds else []
