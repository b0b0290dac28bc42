"""Finds the coverage facts: each module that counts some declares them in `FACTS`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from analysis.judge import coverage
from analysis.judge.history import answers
from analysis.judge.rules.registry import ANOMALIES
from analysis.judge.trace import of_run
from ebbtide.coverage_fact import ABOUT, Fact


def declared_facts() -> tuple[Fact, ...]:
    """Return every coverage fact, by what it is about and then by who counts it."""
    names = sorted(one.name for one in pkgutil.iter_modules(coverage.__path__))
    modules = [import_module(f"{coverage.__name__}.{name}") for name in names]
    found = [fact for module in (*modules, answers, of_run) for fact in getattr(module, "FACTS", ())]
    found += [kind.fact for kind in ANOMALIES if kind.fact is not None]
    return tuple(sorted(found, key=lambda fact: [*ABOUT].index(fact.about)))
