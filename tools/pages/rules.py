"""Writes ebbtide/rules/rules.json, and tables of docs/clauses.md and docs/causes.md, from the rules of the judge.

`python -m tools.pages.rules` needs no run; a test compares them with the rules.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from analysis.judge.coverage.registry import declared_facts
from analysis.judge.rules.anomaly import Anomaly
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.registry import ANOMALIES, CLAUSES
from ebbtide.rules.table import ClauseRow, KindRow, RulesTable
from tools.pages.tables import with_table

_R = TypeVar("_R", ClauseRow, KindRow)

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "ebbtide" / "rules" / "rules.json"
CLAUSES_PAGE = ROOT / "docs" / "clauses.md"
ANOMALIES_PAGE = ROOT / "docs" / "causes.md"

_PROGRAM = "rules"
_CLAUSES = ("clause", "KIP", "violated, for example", "unknown when")
_ANOMALIES = ("kind", "one item for each", "for example", "module")


def table() -> bytes:
    """Return the content of rules.json."""
    made = RulesTable(
        clauses=tuple(_row(ClauseRow, one) for one in CLAUSES),
        anomalies=tuple(_row(KindRow, one) for one in ANOMALIES),
        facts=declared_facts(),
    )
    return msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"


def _row(row: type[_R], rule: Clause | Anomaly) -> _R:
    """Return the row of a rule: its attributes of the same names, and of its example what it says."""
    fields = row.__struct_fields__
    values: dict[str, Any] = {one: rule.story if one == "example" else getattr(rule, one) for one in fields}
    return row(**values)


def clauses_page(text: str) -> str:
    """Return docs/clauses.md with a new table; the rest of the text stays."""
    rows = [(one.name, one.kip, one.story, one.unknown_when or "-") for one in CLAUSES]
    return with_table(text, _PROGRAM, _CLAUSES, rows)


def anomalies_page(text: str) -> str:
    """Return docs/causes.md with a new table; the rest of the text stays."""
    modules = {one.name: "/".join(one.module.split(".")[-2:]) for one in ANOMALIES}
    rows = [(one.name, one.means, one.story, f"`{modules[one.name]}.py`") for one in ANOMALIES]
    return with_table(text, _PROGRAM, _ANOMALIES, rows)


def main() -> int:
    """Write all of them."""
    TABLE.write_bytes(table())
    CLAUSES_PAGE.write_text(clauses_page(CLAUSES_PAGE.read_text()))
    ANOMALIES_PAGE.write_text(anomalies_page(ANOMALIES_PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
