"""Writes docs/coverage-facts.md, the table of coverage facts.

It comes from the code and from the scenario files that use them. `python -m tools.pages.catalogue`
writes it; a test compares the page with both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ebbtide.scenario.facts import GROUPS, Fact
from ebbtide.scenario.model import Scenario

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage-facts.md"
_HEAD = """# Coverage facts

This page lists the facts that `coverage` counts in a verdict, and the scenarios that ask for each. A prediction asks
for facts in `exercised`, and rules them out in `never` ([coverage.md](coverage.md)).

`python -m tools.pages.catalogue` makes this page from the code and the scenario files; do not edit it.
"""


def page(scenarios: Sequence[Scenario]) -> str:
    """The whole page."""
    return _HEAD + "".join(f"{line}\n" for line in _table(scenarios))


def _table(scenarios: Sequence[Scenario]) -> Iterator[str]:
    for title, facts in GROUPS.items():
        yield from ("", f"{title}:", "", "| fact | counts | clause or bug | asked for by |", "|---|---|---|---|")
        for fact in facts:
            needs = f"; says nothing without `{'` or `'.join(fact.needs)}`" if fact.needs else ""
            yield f"| `{fact.name}` | {fact.counts}{needs} | {fact.clause} | {_scenarios_asking(fact, scenarios)} |"


def _scenarios_asking(fact: Fact, scenarios: Sequence[Scenario]) -> str:
    asking = [
        f"[{one.name}](scenarios/{one.name}.md)"
        for one in scenarios
        if any(fact.name in (*each.exercised, *each.never) for each in one.predictions)
    ]
    return ", ".join(asking)


def write(scenarios: Sequence[Scenario]) -> None:
    """Write the page."""
    PAGE.write_text(page(scenarios))
