"""Writes ebbtide/rules/rules.json, and the table of docs/clauses.md, from the rules of the judge.

`python -m tools.pages.rules` needs no run; a test compares both with the rules.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from analysis.judge.rules.registry import CLAUSES
from ebbtide.rules.table import ClauseRow, RulesTable

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "ebbtide" / "rules" / "rules.json"
PAGE = ROOT / "docs" / "clauses.md"

_MARK = "<!-- Made by `python -m tools.pages.rules` from here to the next empty line; do not edit. -->\n"
_HEAD = "\n| clause | KIP | unknown when |\n|---|---|---|\n"


def table() -> bytes:
    """Return the content of rules.json."""
    fields = ClauseRow.__struct_fields__
    rows = tuple(ClauseRow(**{field: getattr(one, field) for field in fields}) for one in CLAUSES)
    return msgspec.json.format(msgspec.json.encode(RulesTable(clauses=rows)), indent=1) + b"\n"


def page(text: str) -> str:
    """Return docs/clauses.md with a new table; the rest of the text stays."""
    before, mark, rest = text.partition(_MARK + _HEAD)
    assert mark, f"{PAGE} has no mark before its table"
    rows = "".join(f"| {one.name} | {one.kip} | {one.unknown_when or '-'} |\n" for one in CLAUSES)
    return before + mark + rows + rest[rest.index("\n\n") + 1 :]


def main() -> int:
    """Write both."""
    TABLE.write_bytes(table())
    PAGE.write_text(page(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
