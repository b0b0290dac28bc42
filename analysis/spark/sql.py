"""PySpark for modules that the judge imports for every record: it is imported when something here is first used.

That takes a tenth of a second, and most records have no anomaly that needs it. `Column`, `DataFrame` and
`SparkSession` are here for annotations.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession, Window
    from pyspark.sql import functions as F
else:

    class _Lazy:
        """Something of `pyspark.sql`, which is imported when an attribute is first asked for."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> object:
            found = getattr(getattr(import_module("pyspark.sql"), self._name), attribute)
            setattr(self, attribute, found)
            return found

    Column, DataFrame, SparkSession, Window = map(_Lazy, ("Column", "DataFrame", "SparkSession", "Window"))
    F = _Lazy("functions")

__all__ = ["Column", "DataFrame", "F", "SparkSession", "Window"]
