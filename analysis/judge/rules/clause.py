"""Says what a clause declares, and checks clauses.

A clause is one module of a folder beside this one, with a `RULE`. All that is true of the clause stands there: other
modules, the tables of the base layer and the pages are made from it (`analysis.judge.rules.registry`).
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import get_args

import msgspec

from analysis.evidence.remaking import TIMELINE
from analysis.judge.rules.findings import Finding, unknown_finding
from analysis.judge.rules.judged import Judged
from analysis.judge.rules.rule import DeclaredRule
from ebbtide.own_code import OwnCodeError
from ebbtide.record.properties import CHECKER_FAILED
from ebbtide.record.tables import TABLES
from ebbtide.record.verdict import Needed, PropertyResult, PropertyStatus

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

    @property
    def module(self) -> str:
        """The module of its check."""
        return self.check.__module__

    @property
    def text(self) -> str:
        """What the KIP says: the first paragraph of the module's docstring."""
        return " ".join((sys.modules[self.module].__doc__ or "").partition("\n\n")[0].split())


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
