"""The coverage facts by name, as those declare them who count them.

The table says what each fact counts, the clause it bears on, and when its 0 says nothing. Every name in `coverage` of
a verdict is one of these, and so is every name in a prediction's `exercised` and `never`. docs/coverage-facts.md
shows the table; `python -m tools.pages.catalogue` makes it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.coverage_fact import ABOUT, Fact
from ebbtide.rules.table import FACTS as _FACTS

FACTS: Mapping[str, Fact] = _FACTS

GROUPS: Mapping[str, tuple[Fact, ...]] = {
    title: tuple(fact for fact in FACTS.values() if fact.about == about) for about, title in ABOUT.items()
}
"""All facts, by what they are about."""


def missing_needs(name: str, facts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the needed facts that never came about; empty if the 0 says something.

    Without a needed fact, the fact's 0 says nothing.
    """
    needs = FACTS[name].needs if name in FACTS else ()
    return () if any(facts.get(one) for one in needs) else needs
