"""Writes the table of faults in docs/faults.md.

`ebbtide.scenario.steps` has the description of each kind. `python -m tools.pages.catalogue` writes
it; a test compares the page with the code.
"""

from __future__ import annotations

from pathlib import Path

from ebbtide.scenario.steps.table import KINDS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
_BEGIN = """<!-- Made by `python -m tools.pages.catalogue` from here to the next heading; do not edit. -->

| step | does | proof that it took effect | healed by |
|---|---|---|---|
"""


def page(text: str) -> str:
    """Return the page with a new table; the text before and after it stays."""
    kept, mark, rest = text.partition(_BEGIN)
    assert mark, f"{PAGE} lacks its mark"
    rows = [
        f"| {kind} | {one.does} | {one.proof} | {one.ended_by} |\n"
        for kind, one in KINDS.items()
        if one.family != "waiting"
    ]
    return kept + mark + "".join(rows) + "\n" + rest[rest.index("## ") :]


def write() -> None:
    """Write the page with a new table."""
    PAGE.write_text(page(PAGE.read_text()))
