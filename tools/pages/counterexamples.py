"""Writes the pages of the findings' counterexamples: docs/assets/counterexamples/NAME.html.

Run `python -m tools.pages.counterexamples`. A page is what the first `ebbtide spec check` of the finding's page in
docs/findings/ writes with `--html FILE`. A test compares the pages with new ones.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from harness.cli.main import main as run_command

DOCS = Path(__file__).resolve().parents[2] / "docs"
FINDINGS = DOCS / "findings"
PAGES = DOCS / "assets" / "counterexamples"
_COMMAND = re.compile(r"ebbtide (spec check --[^`\n]+)")


def commands() -> dict[str, str]:
    """Return the search of each finding that has one, by the name of its page."""
    pages = ((page.stem, _COMMAND.search(page.read_text())) for page in sorted(FINDINGS.glob("*.md")))
    return {name: found[1] for name, found in pages if found is not None}


def write(name: str, command: str, folder: Path) -> Path:
    """Search again, write the page of the counterexample to `folder`, and return its path."""
    path = folder / f"{name}.html"
    run_command([*shlex.split(command), "--html", str(path)])
    return path


def main() -> int:
    """Write the page of every finding that has a search."""
    PAGES.mkdir(parents=True, exist_ok=True)
    for name, command in commands().items():
        write(name, command, PAGES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
