"""Cases for the check of one clause, with only what it looks at."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from records import as_record

from analysis.judge.rules.case import Case
from analysis.judge.rules.clause import CheckedClause, check_all

NOTHING: Any = None


def case(record: Path | None = None, **fields: Any) -> Case:
    """Return a case with these fields. A check that looks at anything else fails."""
    given = {
        "record": as_record(record or Path("no-record"), fields.get("manifest")),
        "manifest": NOTHING,
        "evidence": NOTHING,
        "trace": NOTHING,
        "answers": NOTHING,
        "steps": NOTHING,
        "session_timeout_s": 9.0,
    }
    return Case(**{**given, **fields})


def checked(rule: ModuleType, on: Case) -> CheckedClause:
    """Return what the clause of a module found; a check that fails throws."""
    if rule.RULE.applies is None or rule.RULE.applies(on):
        rule.RULE.check(on)
    (found,) = check_all(on, [rule.RULE])
    return found
