"""Where the shipped scenarios are: ebbtide/scenarios/GROUP/NAME.toml, so a file's folder is its group.

What recorded runs of the catalogue lost, and how long they took.

`measured.json` is a link to docs/measured.json; a wheel holds the file itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources import files
from importlib.resources.abc import Traversable
from operator import itemgetter
from statistics import median
from typing import Protocol

import msgspec

from ebbtide.scenario.key_places import header_of_table
from ebbtide.suggestions import nearest_words
from ebbtide.untrusted.values import decode_toml

GROUPS = {
    "losing-power": "Losing power",
    "losing-links": "Losing links",
    "disks": "Disks",
    "elections-and-settings": "Elections and settings",
    "consumers-and-groups": "Consumers and groups",
    "transactions": "Transactions",
    "controllers": "Controllers",
    "upgrades": "Upgrades",
    "known-bugs": "Known bugs",
    "findings": "Findings",
}
"""The groups by what a user asks, in the order of the list, and their headings."""


@cache
def files_by_group() -> dict[str, dict[str, Traversable]]:
    """Return the files of each group by the names of their scenarios, sorted."""
    folder = resources.files("ebbtide") / "scenarios"
    return {group: _scenarios_in(folder / group) for group in GROUPS}


@cache
def shipped_files() -> dict[str, Traversable]:
    """Return the file of each shipped scenario, sorted by name."""
    return dict(sorted((item for files in files_by_group().values() for item in files.items()), key=itemgetter(0)))


def _scenarios_in(folder: Traversable) -> dict[str, Traversable]:
    files = {file.name.removesuffix(".toml"): file for file in folder.iterdir() if file.name.endswith(".toml")}
    return dict(sorted(files.items(), key=itemgetter(0)))


_USUAL = "healthy"
"""The plainest one, for whatever it uses."""

_KIN = {"initial_voters": "quorum"}
"""Keys that no shipped scenario uses, and the key that they belong to."""

_KEY = re.compile(r"(?:(cluster)|(topics)\.[^.\[]+|(producers|consumers|predictions)\[\d+\])\.(\w+)")
"""A place in a file: a table, and a key in it."""


def example_with(where: str | None) -> str:
    """Return the name of a scenario that uses the key at a place; for other places, of the plainest one.

    Of several the shortest file is taken. A misspelled key is taken for the nearest that a scenario uses.
    """
    if (found := _table_and_key(where)) is None:
        return _USUAL
    table, key = found
    by_key = {used: name for name, scenario in reversed(_shortest_first()) for used in _keys_in(scenario, table)}
    near = [key] if key in by_key else nearest_words(key, sorted({*by_key, *_KIN}), most=1)
    return by_key.get(_KIN.get(near[0], near[0]), _USUAL) if near else _USUAL


def show_example(where: str | None) -> str:
    """Return the command that shows the example for a place in a file, and says what it is an example of."""
    name, found = example_with(where), _table_and_key(where)
    of = "a whole file" if name == _USUAL or found is None else header_of_table(found[0])
    return f"ebbtide scenarios show {name}    (an example of {of})"


def _table_and_key(where: str | None) -> tuple[str, str] | None:
    """Return the table of a place in a file, and the key in it; None for a place in no such table."""
    found = _KEY.match(where or "")
    return None if found is None else (found[1] or found[2] or found[3], found[4])


@cache
def _shortest_first() -> Sequence[tuple[str, Mapping[str, object]]]:
    """Return each shipped scenario, decoded, by its name: the plainest one, then the shortest files first."""
    texts = [(name, file.read_text("utf-8")) for name, file in shipped_files().items()]
    texts.sort(key=lambda one: (one[0] != _USUAL, len(one[1]), one[0]))
    return [(name, decode_toml(text)) for name, text in texts]


def _keys_in(scenario: Mapping[str, object], table: str) -> set[str]:
    """Return every key that tables of this name have in a scenario."""
    value = scenario.get(table, {})
    if isinstance(value, dict):
        value = [*value.values()] if table == "topics" else [value]
    tables = value if isinstance(value, list) else []
    return {key for one in tables for key in one}


class MeasuredRow(msgspec.Struct, frozen=True):
    """One row of docs/measured.json, as far as it is needed; `took_s` is a median."""

    scenario: str
    target: str
    runtime: str
    lost: tuple[str, ...]
    took_s: float


@cache
def measured_rows() -> tuple[MeasuredRow, ...]:
    """Return all rows."""
    content = (files("ebbtide.scenario") / "measured.json").read_bytes()
    return tuple(msgspec.json.decode(content, type=tuple[MeasuredRow, ...]))


class _Timed(Protocol):
    @property
    def runtime(self) -> str: ...
    @property
    def took_s(self) -> float: ...


def usual_s(rows: Sequence[_Timed]) -> float | None:
    """Return how long a run of a scenario usually takes, without its verdict; None: there are no rows.

    This is the median of its rows, of those on the local runtime if there are any.
    """
    local = [row for row in rows if row.runtime == "local"]
    return median(row.took_s for row in local or rows) if rows else None


def took_in_words(took_s: float | None) -> str:
    """Return a time of `usual_s` in seconds or minutes; `-` if it was not measured."""
    if took_s is None:
        return "-"
    return f"{took_s:.0f} s" if took_s < 99.5 else f"{took_s / 60:.0f} min"
