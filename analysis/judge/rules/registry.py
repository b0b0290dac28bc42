"""Finds the rules: each module of the folders beside this one that has a `RULE`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from analysis.judge import rules
from analysis.judge.rules.anomaly import Anomaly
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.rule import DeclaredRule
from analysis.rows.question import KindQuestion

SUBJECTS = (
    "losses",
    "reads",
    "appends",
    "leaders",
    "partitions",
    "quorum",
    "groups",
    "transactions",
    "duties",
    "clients",
)
"""The folders, in the order of verdict.json and of the pages."""


def rules_of(subject: str) -> list[DeclaredRule]:
    """Return the rules of one folder. Raises `TypeError` for one without an example."""
    folder = import_module(f"{rules.__name__}.{subject}")
    names = sorted(one.name for one in pkgutil.iter_modules(folder.__path__))
    modules = [import_module(f"{folder.__name__}.{name}") for name in names]
    found: list[DeclaredRule] = [module.RULE for module in modules if hasattr(module, "RULE")]
    if without := [one.name for one in found if not one.story]:
        raise TypeError(f"{without[0]} has no example: a small run that breaks the rule")
    return found


_RULES = [rule for subject in SUBJECTS for rule in rules_of(subject)]

CLAUSES: tuple[Clause, ...] = tuple(rule for rule in _RULES if isinstance(rule, Clause))
"""Every clause that is checked, by subject and then by name."""

ANOMALIES: tuple[Anomaly, ...] = tuple(rule for rule in _RULES if isinstance(rule, Anomaly))
"""Every kind of anomaly, by subject and then by name."""


def questions() -> list[type[KindQuestion]]:
    """Return the questions of all kinds of anomalies, each once."""
    return list(dict.fromkeys(question for kind in ANOMALIES for question in kind.questions))
