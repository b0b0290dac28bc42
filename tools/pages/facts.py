"""Writes docs/coverage-facts.md, the table of coverage facts.

It comes from the code and from the scenario files that use them. `python -m tools.pages.catalogue`
writes it; a test compares the page with both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ebbtide.coverage_fact import Fact
from ebbtide.scenario.facts import GROUPS
from ebbtide.scenario.model import Scenario

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage-facts.md"
_HEAD = """# Coverage facts

`coverage` in a verdict counts the states and events that came about in a run. A verdict about a state that never came
about says nothing, and coverage shows that. This page lists the facts, and the scenarios that ask for each.

- A prediction asks for facts in `exercised`. If one does not come about, the run is inconclusive.
- A prediction rules out facts in `never`. If one comes about, the run is contradicted.
- A fact that came about 0 times is listed. A fact that needs missing parts of the record is left out, and a prediction
  that asks for it makes the run inconclusive.
- A fact that did not come about means nothing if it could not have: some are counted only within stretches of a certain
  state. The table says what each needs. `never` then also makes the run inconclusive.

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
