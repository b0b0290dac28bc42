"""Reads and decodes scenario files; one that is too large to check within a second is refused.

The work of some checks grows with the square of the steps, or with the number of predictions times that of releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ebbtide.errors import UsageError
from ebbtide.untrusted.files import read_text
from ebbtide.untrusted.values import decode_toml

BYTES_MAX = 256 << 10
"""Fifty times the largest scenario that comes with Ebbtide."""
ELEMENTS_MAX = 1_000
"""Of one list or table. A random schedule has at most 200 steps, and those that heal."""
_RELEASES_MAX = 100


def read_scenario_text(path: Path) -> str:
    """Return the text of a scenario file. Raises `UnreadableFile`."""
    return read_text(path, what="the scenario file", bytes_max=BYTES_MAX)


def decode_scenario_text(text: str) -> dict[str, object]:
    """Return the tables of a scenario file. Raises `ValueError` for other text than TOML, and `UsageError`."""
    decoded = decode_toml(text)
    for where, part in _lists_and_tables(decoded):
        most = _RELEASES_MAX if where == "kafka" else ELEMENTS_MAX
        if len(part) > most:
            raise UsageError(
                "too long for a scenario",
                where=where or "top level of the file",
                got=f"{len(part):,} {'keys' if isinstance(part, dict) else 'elements'}",
                allowed=f"up to {most:,}",
            )
    return decoded


def _lists_and_tables(decoded: dict[str, object]) -> Iterator[tuple[str, dict[str, object] | list[Any]]]:
    waiting: list[tuple[str, Any]] = [("", decoded)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, dict):
            yield where, value
            waiting += [(f"{where}.{key}" if where else key, one) for key, one in value.items()]
        elif isinstance(value, list):
            yield where, value
            waiting += [(f"{where}[{at}]", one) for at, one in enumerate(value)]
