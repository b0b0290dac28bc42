"""Has what a module of a clause takes: what it declares, looks at and finds. It also checks clauses.

A clause is one module of a folder beside this one, with a `RULE`. All that is true of the clause stands there: other
modules, the tables of the base layer and the pages are made from it (`analysis.judge.rules.registry`).
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec

from analysis.evidence.remaking import TIMELINE
from analysis.judge.history.evidence import AnyAnomaly, AttributedAnomaly, Row, blamed_of
from analysis.judge.history.sent import CountCopies
from analysis.judge.rules.rule import DeclaredRule
from analysis.judge.trace.of_run import trace_of
from analysis.judge.trace.results import TimelineTrace
from analysis.reconcile.model import G, Reconciliation, ShownGroup
from analysis.record.elections import ElectionEvent
from analysis.record.record import Record
from analysis.record.scans import Scan
from ebbtide.own_code import OwnCodeError
from ebbtide.record.properties import CHECKER_FAILED
from ebbtide.record.rows import PartitionState
from ebbtide.record.tables import TABLES
from ebbtide.record.verdict import Needed, PropertyResult, PropertyStatus
from ebbtide.rules.table import HW_REGRESSION

NOT_IN_EVIDENCE = "a record between is not in the evidence"
EVIDENCE_ROWS_MAX = 20
"""How many rows of evidence a property shows; the status counts all rows."""

_SMALL_PARTS = frozenset({*TIMELINE, "manifest", "steps", "scenario", "evidence"})
_PARTS = _SMALL_PARTS.union(TABLES, ("clients", "quorum", "wire", "witness"))


class Clause(DeclaredRule, frozen=True, kw_only=True):
    """A promise of the protocol and its check.

    - `kip`: `KIP-` and a number, `Kafka's promise` where no KIP says it, or `harness` if it is on Ebbtide itself.
    - `unknown_when`: why the clause may be unknown, for people.
    - `parts`: the parts of the record that it is checked on, besides the small files; where one of them has a gap, the
      clause is unknown.
    - `scans`: what it asks of the rows of tables; one pass over each table answers all of it.
    - `reads_timeline`: it cannot be checked without partitions.parquet.
    - `applies`: whether the run has what the clause is on. If not, it is not exercised.
    - `needed`: when a run cannot end as predicted while the clause is unknown. Unless it is `never`, each record that
      lacks what the clause reads is inconclusive, also one that was as predicted before there was the clause.
    - `compares_times`: it compares times of controllers with those of clients or steps. Where a clock was set, it may
      be unknown.
    - `is_shown_without_steps`: the record of a watched cluster, which has no steps, can show a violation.
    - `allowed`: of a clause on losses, what is true if it holds. The causes say what violates it.
    """

    kip: str
    check: Callable[[Judged], Finding]
    unknown_when: str = ""
    parts: Collection[str] = ()
    scans: tuple[type[Scan[Any]], ...] = ()
    reads_timeline: bool = True
    applies: Callable[[Judged], bool] | None = None
    needed: Needed = "always"
    compares_times: bool = False
    is_shown_without_steps: bool = False
    allowed: str = ""

    def __post_init__(self) -> None:
        """Refuse what the types forbid: of a rule of the user, nobody has checked them."""
        needed = get_args(Needed)
        if self.needed not in needed:
            raise ValueError(f"needed is {self.needed!r}; allowed: {', '.join(needed)}")
        parts = [self.parts] if isinstance(self.parts, str) else self.parts
        if isinstance(self.parts, str) or not _PARTS.issuperset(parts):
            raise ValueError(f"parts has {', '.join(parts)}; allowed: a tuple of {', '.join(sorted(_PARTS))}")
        for table, columns in [item for scan in self.scans for item in scan.columns.items()]:
            if table not in TABLES or not {*columns} <= {*TABLES[table].names}:
                raise ValueError(f"a scan reads {', '.join(columns)} of {table}; allowed: columns of the record format")

    @property
    def module(self) -> str:
        """The module of its check."""
        return self.check.__module__

    @property
    def text(self) -> str:
        """What the KIP says: the first paragraph of the module's docstring."""
        return " ".join((sys.modules[self.module].__doc__ or "").partition("\n\n")[0].split())


class Judged:
    """A record, what the reconciliation found in it, and the anomalies that have a cause.

    - `record`: the record and what is read from it.
    - `found`: the anomalies of each kind, counted.
    - `blamed`: the anomalies that elections or disks may explain, each with its attribution.
    """

    def __init__(self, record: Record, found: Reconciliation, blamed: Sequence[AnyAnomaly]) -> None:
        self.record = record
        self.found = found
        self.blamed = tuple(blamed)

    @cached_property
    def unknown(self) -> Mapping[str, str]:
        """Why kinds of anomalies are not known, or not everywhere."""
        # A HW that had not gone back when a run ended early might have done so later.
        early = {} if self.record.manifest.status == "complete" else {HW_REGRESSION: "the run ended early"}
        return {**early, **self.found.unknown}

    @cached_property
    def trace(self) -> TimelineTrace:
        """The metadata log, held against the model."""
        return trace_of(self.record)

    @cached_property
    def copies_sent(self) -> Mapping[str, int]:
        """How many records the copiers of each group sent."""
        return self.record.seen(CountCopies)

    def blamed_of(self, sort: type[G]) -> list[AttributedAnomaly[G]]:
        """Return the anomalies whose items are groups of one sort."""
        return blamed_of(self.blamed, sort)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a check on some part of the run, with the rows that show it.

    `cases` counts them where one row stands for several or not all are listed; None: one case a
    row.
    """

    status: PropertyStatus
    evidence: tuple[Row, ...] = ()
    cases: int | None = None


class Compared(NamedTuple):
    """What a scan found: how many cases it compared, and the evidence of those that break the clause."""

    cases: int
    breaches: Sequence[Row]


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


class Cases:
    """The cases of a check, one after the other, and the finding that they make."""

    def __init__(self) -> None:
        self._exercised = 0
        self._violations: list[Row] = []
        self._unknown: list[Row] = []

    def add(self, *breaches: Row | None, why: str | None = None) -> None:
        """Add a case: it holds, or `breaches` show how it does not. `why`: why these may be no violations."""
        self._exercised += 1
        rows = [one for one in breaches if one is not None]
        if why is None:
            self._violations += rows
        else:
            self._unknown += [row | {"why": why} for row in rows]

    @property
    def is_broken(self) -> bool:
        """Whether a case breaks the clause, whatever the doubt."""
        return bool(self._violations)

    def finding(self, doubt: str | None = None) -> Finding:
        """Return the finding, as the function `finding` does."""
        return finding(exercised=self._exercised, violations=self._violations, unknown=self._unknown, doubt=doubt)


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


class CheckedClause(msgspec.Struct, frozen=True, kw_only=True):
    """A clause with what its check found.

    `found` is written to the verdict; `threw`: the check itself failed; `cases` counts all that it
    found.
    """

    clause: Clause
    found: PropertyResult
    threw: bool = False
    cases: int = 0

    @property
    def why(self) -> str:
        """Return the reason that the first evidence row carries, if any."""
        first = self.found.evidence[0] if self.found.evidence else {}
        return str(first.get("why", "")) if isinstance(first, dict) else ""


def check_all(judged: Judged, clauses: Sequence[Clause]) -> list[CheckedClause]:
    """Check every clause. A check that throws leaves its clause unknown; the clause never passes."""
    return [_check_clause(judged, clause) for clause in clauses]


def _check_clause(judged: Judged, clause: Clause) -> CheckedClause:
    threw = False
    try:
        found = _found(judged, clause)
        # What a rule of the user has found may be anything.
        msgspec.json.encode(found.evidence)
    except OwnCodeError as error:
        why = f"{CHECKER_FAILED}{error.what}: {error.got} ({Path(error.where or '').name})"
        found, threw = unknown_finding(why), True
    except Exception as error:  # a check that throws must not cost the run its other results
        why = f"{CHECKER_FAILED}{type(error).__name__}: {error}{_place_of(error, clause)}"
        found, threw = unknown_finding(why), True
    evidence = list(found.evidence[:EVIDENCE_ROWS_MAX])
    return CheckedClause(
        clause=clause,
        found=PropertyResult(name=clause.name, kip=clause.kip, status=found.status, evidence=evidence),
        threw=threw,
        cases=found.cases if found.cases is not None else len(found.evidence),
    )


def _place_of(error: Exception, clause: Clause) -> str:
    """Return the last line of the clause's own file that the error came through."""
    file = getattr(sys.modules.get(clause.module), "__file__", None)
    if file is None:
        return ""
    own = [one for one in traceback.extract_tb(error.__traceback__) if Path(one.filename).absolute() == Path(file)]
    return f" ({Path(file).name}, line {own[-1].lineno})" if own else ""


def _found(judged: Judged, clause: Clause) -> Finding:
    if clause.applies is not None and not clause.applies(judged):
        return Finding(status="not-exercised")
    if clause.reads_timeline and "partitions" in judged.record.timeline.missing:
        watch = judged.record.manifest.watch
        why = watch.why_log_ends if watch is not None else None
        return unknown_finding(why or "the metadata timeline is missing (partitions.parquet)")
    if gap := next((one for one in judged.record.gaps if one.part in _SMALL_PARTS.union(clause.parts)), None):
        return unknown_finding(gap.why)
    found: object = clause.check(judged)
    if not isinstance(found, Finding):
        raise TypeError(f"the check returned a {type(found).__name__}, not a Finding")
    if found.status not in get_args(PropertyStatus):
        raise ValueError(f"the check found {found.status!r}; allowed: {', '.join(get_args(PropertyStatus))}")
    return found
