"""Ebbtide's packages have plain names: says which other file stands in front of one, before anything is imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path

PACKAGES = ("harness", "faults", "workloads", "analysis")


def shadowed() -> str | None:
    """The first package that is not Ebbtide's own, in a sentence; None: all are."""
    home = Path(__file__).resolve().parent.parent
    for name in PACKAGES:
        try:
            spec = importlib.util.find_spec(name)
        except ValueError:  # something put a module without a spec there
            spec = None
        file = Path(spec.origin).resolve() if spec is not None and spec.origin is not None else None
        if file != home / name / "__init__.py":
            places = list(spec.submodule_search_locations or ()) if spec is not None else []
            stands = str(file) if file is not None else (places[0] if places else "nothing")
            return (
                f"the package {name} is not ebbtide's own: {stands} stands in front of it; rename that, or run these "
                "tests from a folder and a virtual environment without it"
            )
    return None
