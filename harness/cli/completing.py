"""What a word that was begun may become: scenarios, releases, run records, clusters that are up.

Click's shell scripts call the command with an environment variable for this (`complete`).
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem, FishComplete, add_completion_class, shell_complete

SHELLS = ("bash", "zsh", "fish")


@add_completion_class
class _Fish(FishComplete):
    """Click's script ends a value at its first comma, and several releases are separated by commas."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


def complete(group: click.Group, variable: str, instruction: str) -> int:
    """Answer a shell, or print its script; return the exit code. Whatever fails, a shell hears nothing of it."""
    try:
        return shell_complete(group, {}, "ebbtide", variable, instruction)
    except Exception:
        return 1


def scenario_or_file(incomplete: str) -> list[CompletionItem[str]]:
    """Scenarios of the catalogue, and scenario files."""
    found = glob.glob(f"{glob.escape(incomplete)}*.toml")
    if os.sep in incomplete and not found:
        return files(incomplete)
    return [*scenario(incomplete), *_items(sorted(found), incomplete)]


def scenario(incomplete: str) -> list[CompletionItem[str]]:
    """Scenarios of the catalogue."""
    from ebbtide.scenario import catalogue

    return _items(catalogue.names(), incomplete)


def scenarios(incomplete: str) -> list[CompletionItem[str]]:
    """A list of scenarios, separated by commas."""
    return _last(incomplete, scenario)


def release(incomplete: str) -> list[CompletionItem[str]]:
    """Kafka releases that are in the cache, or known; the newest first."""
    from packaging.version import Version

    from cluster.jars.releases import cached_releases
    from ebbtide.releases.known import KNOWN

    here = {one.version for one in cached_releases()}
    versions = sorted(here | {one.version for one in KNOWN}, key=Version, reverse=True)
    fitting = [version for version in versions if version.startswith(incomplete)]
    return [CompletionItem(version, help="fetched" if version in here else "known") for version in fitting]


def releases(incomplete: str) -> list[CompletionItem[str]]:
    """A list of releases, separated by commas."""
    return _last(incomplete, release)


def record(incomplete: str) -> list[CompletionItem[str]]:
    """Run records in ./runs, or in the folder that was begun; other folders where there are none."""
    from ebbtide.record.manifest import records_of

    folder = os.path.dirname(incomplete) if os.sep in incomplete else "runs"
    found = [os.path.join(folder, path.name) for path in reversed(records_of(Path(folder)))]
    fitting = [path for path in found if path.startswith(incomplete)]
    if os.sep not in incomplete:  # a run id
        fitting += [path for path in found if Path(path).name.startswith(incomplete) and path not in fitting]
    return [CompletionItem(path) for path in fitting] or folders(incomplete)


def step_kinds(incomplete: str) -> list[CompletionItem[str]]:
    """A list of kinds of step that can be drawn, separated by commas."""
    from harness.random.table import GENERATORS

    return _last(incomplete, lambda word: _items(sorted(GENERATORS), word))


def cluster(incomplete: str) -> list[CompletionItem[str]]:
    """Clusters that are up."""
    from ebbtide.daemon.control import names

    return _items(names(), incomplete)


def files(incomplete: str) -> list[CompletionItem[str]]:
    """Files, as the shell finds them."""
    return [CompletionItem(incomplete, type="file")]


def folders(incomplete: str) -> list[CompletionItem[str]]:
    """Folders, as the shell finds them."""
    return [CompletionItem(incomplete, type="dir")]


def _items(words: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _last(incomplete: str, of_one: Callable[[str], list[CompletionItem[str]]]) -> list[CompletionItem[str]]:
    """What the last word of a comma separated list may become."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    items = [item for item in of_one(last) if item.value not in taken]
    return [CompletionItem(f"{before}{comma}{item.value}", help=item.help) for item in items]
