"""Where the shipped scenarios are: ebbtide/scenarios/GROUP/NAME.toml, so a file's folder is its group."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from operator import itemgetter

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
