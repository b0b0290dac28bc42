"""What the tests know of a kind of anomaly: a module each, of the same name as the rule's.

- `CASES`: what to build, and the items that it must lead to.
- `UNKNOWN`: what to build, and why the kind is not known then.
- `found_in(tables, manifest)`: the rule a second time, in plain Python. A kind that tables alone do not show has
  `found_in_record(builder)` instead.
- `plant(builder, n)`: adds so many items to a healthy history, and returns how many of which kind.

Kinds without a module here have these in the modules `reconcile_*`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any


@cache
def modules() -> tuple[ModuleType, ...]:
    """The modules of all kinds."""
    return tuple(import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__))


def functions(name: str) -> Iterator[Any]:
    """The functions of this name; not every module has each."""
    return (getattr(module, name) for module in modules() if hasattr(module, name))


def planters(*, of_tables: bool) -> list[Any]:
    """The planters of kinds that tables show, or of the others."""
    return [module.plant for module in modules() if hasattr(module, "found_in") == of_tables]
