"""Counts what a run exercised: a verdict on a state that never occurred says nothing.

Each other module of this package declares coverage facts in `FACTS`, and counts them with `count`. A fact that never
occurred counts 0; a fact that is not known is left out.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType

from analysis.judge import coverage as package
from analysis.judge.history import answers
from analysis.judge.rules.registry import ANOMALIES
from analysis.judge.trace import of_run
from analysis.record.record import Record
from ebbtide.coverage_fact import ABOUT, Fact


def coverage(record: Record) -> dict[str, int]:
    """Count how often each fact of this package occurred. Raises `UsageError` when a file of the record is damaged."""
    return {name: count for module in _modules() for name, count in module.count(record).items()}


def declared_facts() -> tuple[Fact, ...]:
    """Return every coverage fact, by what it is about and then by who counts it."""
    found = [fact for module in (*_modules(), answers, of_run) for fact in module.FACTS]
    found += [kind.fact for kind in ANOMALIES if kind.fact is not None]
    return tuple(sorted(found, key=lambda fact: [*ABOUT].index(fact.about)))


@cache
def _modules() -> tuple[ModuleType, ...]:
    """The modules of this package, in the order of their names."""
    names = sorted({one.name for one in pkgutil.iter_modules(package.__path__)} - {"registry"})
    return tuple(import_module(f"{package.__name__}.{name}") for name in names)
