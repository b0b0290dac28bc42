"""Writes the table of known bugs in docs/findings/README.md from the list that `ebbtide advise` has.

`python -m tools.pages.known_bugs` needs no run; a test compares the table with the list.
"""

from __future__ import annotations

import sys
from pathlib import Path

from analysis.advise.known import DEFECTS, KnownDefect
from ebbtide.releases.known_releases import OLDEST
from tools.pages.tables import with_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "findings" / "README.md"

_PROGRAM = "known_bugs"
_COLUMNS = ("bug", "what happens", "scenario", "affected", "fixed in")


def page(text: str) -> str:
    """Return the page with a new table; the rest of the text stays."""
    shown = sorted((one for one in DEFECTS if one.scenario), key=lambda one: (one.name.startswith("apache"), one.name))
    return with_table(text, _PROGRAM, _COLUMNS, [_row(one) for one in shown])


def _row(defect: KnownDefect) -> tuple[str, ...]:
    releases = ", ".join(_range(first, end) for first, end in defect.affected)
    condition = " with the ELR" if defect.needs_elr else ""
    if defect.needs_level:
        condition = f", and newer ones below metadata.version {defect.needs_level}"
    scenario = f"[{defect.scenario}](../scenarios/{defect.scenario}.md)"
    fixed = ", ".join(end or "none: open" for _, end in defect.affected)
    if defect.fixed_by:
        condition = f", and newer ones without {defect.fixed_by}"
        fixed = f"{fixed}, with {defect.fixed_by}"
    return defect.name, defect.what, scenario, f"{releases}{condition}", fixed


def _range(first: str, end: str) -> str:
    if first == OLDEST:
        return f"before {end}" if end else "all"
    return f"{first} to before {end}" if end else f"{first} and newer"


def main() -> int:
    """Write the table."""
    PAGE.write_text(page(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
