"""The run record: tables, manifest, steps. It connects running and judging.

`open_run` reads a record from a notebook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ebbtide.record.reading import RecordedRun, open_run

__all__ = ["RecordedRun", "open_run"]


def __getattr__(name: str) -> Any:
    """Import the reader of tables only when it is used.

    It needs pyarrow: every process of Ebbtide imports this package, and few read tables.
    """
    from importlib import import_module

    if name in __all__:
        return getattr(import_module("ebbtide.record.reading"), name)
    raise AttributeError(f"module 'ebbtide.record' has no attribute {name!r}")
