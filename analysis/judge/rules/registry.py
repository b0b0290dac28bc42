"""Finds the clauses: each module of the folders beside this one that has a `RULE`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from analysis.judge import rules
from analysis.judge.rules.clause import Clause

SUBJECTS = ("losses", "reads", "appends", "leaders", "partitions", "quorum", "groups", "transactions")
"""The folders, in the order of verdict.json and of the pages."""


def _clauses_of(subject: str) -> list[Clause]:
    folder = import_module(f"{rules.__name__}.{subject}")
    names = sorted(one.name for one in pkgutil.iter_modules(folder.__path__))
    modules = [import_module(f"{folder.__name__}.{name}") for name in names]
    return [module.RULE for module in modules if hasattr(module, "RULE")]


CLAUSES: tuple[Clause, ...] = tuple(clause for subject in SUBJECTS for clause in _clauses_of(subject))
"""Every clause that is checked, by subject and then by name."""
