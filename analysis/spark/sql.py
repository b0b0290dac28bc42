"""PySpark's `functions` and `Window` for modules that the judge imports for every record.

PySpark takes half a second to import, and most records have no anomaly that needs it. So it is imported when a rule
first uses one of the two.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Window
    from pyspark.sql import functions as F
else:

    class _Lazy:
        """A module, or something in it, that is imported when an attribute of it is first asked for."""

        def __init__(self, module: str, name: str) -> None:
            self._module, self._name = module, name

        def __getattr__(self, attribute: str) -> object:
            found = getattr(getattr(import_module(self._module), self._name), attribute)
            setattr(self, attribute, found)
            return found

    F = _Lazy("pyspark.sql", "functions")
    Window = _Lazy("pyspark.sql", "Window")

__all__ = ["F", "Window"]
