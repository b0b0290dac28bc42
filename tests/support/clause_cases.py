"""Cases for the check of one clause, with only what it looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from records import as_record
from worked_examples import MadeRule, example_of, record_of

from analysis.judge.history.evidence import AnyAnomaly, AttributedAnomaly, Attribution
from analysis.judge.rules.clause import CheckedClause, Judged, check_all
from analysis.reconcile.model import LostRange, Reconciliation, WrongCopies
from ebbtide.record.manifest import Manifest
from ebbtide.record.verdict import Counts

NOTHING_FOUND = Reconciliation(counts=Counts())


def judged(
    record: Path | None = None,
    *,
    manifest: Manifest | None = None,
    copies: Sequence[WrongCopies] = (),
    copies_sent: Mapping[str, int] | None = None,
    unknown: Mapping[str, str] | None = None,
    blamed: Sequence[AnyAnomaly] = (),
) -> Judged:
    """Return what a clause looks at. A check that needs anything else of the record finds nothing there."""
    found = msgspec.structs.replace(NOTHING_FOUND, groups=list(copies), unknown=dict(unknown or {}))
    given = Judged(as_record(record or Path("no-record"), manifest), found, blamed)
    if copies_sent is not None:
        given.__dict__["copies_sent"] = copies_sent
    return given


def checked(rule: ModuleType, on: Judged) -> CheckedClause:
    """Return what the clause of a module found; a check that fails throws."""
    if rule.RULE.applies is None or rule.RULE.applies(on):
        rule.RULE.check(on)
    (found,) = check_all(on, [rule.RULE])
    return found


def status_of(rule: ModuleType, folder: Path, rows: str, blamed: Sequence[AnyAnomaly] = ()) -> str:
    """Return what the clause of a module finds in a record of these rows, given as in the example of a rule."""
    record_of(example_of(MadeRule(example=f"Rows.\n{rows}\ngives:")), folder / "record")
    return checked(rule, judged(folder / "record", blamed=blamed)).found.status


def lost_range(first: int, last: int, **more: Any) -> LostRange:
    """Return committed records of t-0 that were lost, at these offsets."""
    usual = {"kind": "lost", "topic": "t", "partition": 0, "count": last - first + 1, "acks": -1, "committed": True}
    times = {"first_done_ns": 0, "last_done_ns": 0}
    return LostRange(first_offset=first, last_offset=last, **{**usual, **times, **more})


def lost_by_an_unknown_election(*, partition: int = 0, committed: bool = True) -> AnyAnomaly:
    """Return a lost record of a partition of t, with acks=all if it was committed."""
    lost = lost_range(3, 3, partition=partition, acks=-1 if committed else 1, committed=committed)
    unknown = Attribution(cause=None, election=None, why="")
    return AttributedAnomaly(items=lost, committed=committed, attribution=unknown)
