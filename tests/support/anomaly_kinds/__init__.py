"""What the tests know of a kind of anomaly: a module each, of the same name as the rule's.

- `CASES`: by setting, what to build, and the items that it must lead to.
- `UNKNOWN`, where a kind has it: what to build, and how the reason begins why the kind is not known then.
- `found_in(tables, manifest)`: the rule a second time, in plain Python. A kind that tables alone do not show has
  `found_in_record(builder)` instead.
- `told(found)` and `expected(tables, manifest)`: what else is said of the items, and what must be said; not every kind
  has them.
- `plant(builder, n)` and others whose names begin with `plant_`: add so many items to a healthy history, and return how
  many of which kind.
- `PARTS`, where drawn histories rarely come to the kind: what else they may have, and how many of a hundred do.
- `MUTANTS`: changes of the rule that its tests must notice.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from reconcile_cases import Setting, build_cases
from records import RecordBuilder

Planted = dict[str, int]
"""Items by kind."""
Planter = Callable[[RecordBuilder, int], Planted]


@cache
def modules() -> tuple[ModuleType, ...]:
    """The modules of all kinds."""
    return tuple(import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__))


def functions(name: str) -> Iterator[Any]:
    """The functions of this name; not every module has each."""
    return (getattr(module, name) for module in modules() if hasattr(module, name))


@cache
def settings() -> dict[Setting, list[tuple[str, str]]]:
    """The cases of each setting: kinds, and names. They are the topics of one record, in this order."""
    found: dict[Setting, list[tuple[str, str]]] = {}
    for kind in modules():
        for setting, cases in kind.CASES.items():
            found.setdefault(setting, []).extend((kind.KIND, name) for name in cases)
    return found


def build_setting(setting: Setting) -> RecordBuilder:
    """The record of all cases of a setting."""
    kinds = {kind.KIND: kind for kind in modules()}
    return build_cases(setting, [kinds[kind].CASES[setting][name][0] for kind, name in settings()[setting]])


def unknown_cases() -> dict[str, tuple[str, Setting, str]]:
    """Where a kind cannot be judged: the kind, what to build, and how the reason begins."""
    return {
        f"{kind.KIND}: {name}": (kind.KIND, *case)
        for kind in modules()
        for name, case in getattr(kind, "UNKNOWN", {}).items()
    }


def planters(*, beside_tables: bool = True) -> list[Planter]:
    """All planters, and one that plants nothing; `beside_tables`: also those of kinds that tables alone do not show."""
    found = [
        value
        for module in modules()
        if beside_tables or hasattr(module, "found_in")
        for name, value in vars(module).items()
        if name.startswith("plant")
    ]
    return [plant_nothing, *found]


def plant_nothing(builder: RecordBuilder, n: int) -> Planted:
    """A history that stays healthy."""
    return {}
