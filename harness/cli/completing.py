"""Completes a word in the shell.

The words are scenarios, releases, run records and running clusters.

Click's shell scripts call the command with an environment variable for this (`answer_shell`).
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import (
    CompletionItem,
    FishComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
)


@add_completion_class
class _Fish(FishComplete):
    """Fish with values that contain commas, such as lists of releases.

    Click's own script cuts such values.
    """

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


def answer_shell(group: click.Group, variable: str, instruction: str) -> int:
    """Answer a shell or print its script, without errors; return the exit code."""
    try:
        return shell_complete(group, {}, "ebbtide", variable, instruction)
    except Exception:
        return 1


def completion_script(group: click.Group, variable: str, shell: str) -> str:
    """Return the script with which a shell completes the words of the command."""
    completer = get_completion_class(shell)
    assert completer is not None
    return completer(group, {}, "ebbtide", variable).source().rstrip("\n")


def complete_scenario_or_file(incomplete: str) -> list[CompletionItem[str]]:
    """Return the shipped scenarios and the scenario files that match."""
    found = glob.glob(f"{glob.escape(incomplete)}*.toml")
    if os.sep in incomplete and not found:
        return complete_file(incomplete)
    return [*complete_scenario(incomplete), *_items(sorted(found), incomplete)]


def complete_scenario(incomplete: str) -> list[CompletionItem[str]]:
    """Return the shipped scenarios that match."""
    from ebbtide.scenario import catalogue

    return _items(catalogue.names(), incomplete)


def complete_scenarios(incomplete: str) -> list[CompletionItem[str]]:
    """Return completions of the last scenario in a comma-separated list."""
    return _last_of_list(incomplete, complete_scenario)


def complete_release(incomplete: str) -> list[CompletionItem[str]]:
    """Return the Kafka releases and builds, fetched or known, that match; the newest first. A path is a file."""
    if os.sep in incomplete:
        return complete_file(incomplete)
    from cluster.jars.releases import cached_releases
    from ebbtide.releases.known_releases import KNOWN, age_of

    fetched = {one.version for one in cached_releases()}
    versions = sorted(fetched | {one.version for one in KNOWN}, key=age_of, reverse=True)
    fitting = [version for version in versions if version.startswith(incomplete)]
    return [CompletionItem(version, help="fetched" if version in fetched else "known") for version in fitting]


def complete_releases(incomplete: str) -> list[CompletionItem[str]]:
    """Return completions of the last release, or path of jars, in a comma-separated list."""
    if "," not in incomplete:
        return complete_release(incomplete)

    def complete_last(word: str) -> list[CompletionItem[str]]:
        # No shell completes a file after a comma.
        return _items(glob.glob(f"{glob.escape(word)}*"), word) if os.sep in word else complete_release(word)

    return _last_of_list(incomplete, complete_last)


def complete_record(incomplete: str) -> list[CompletionItem[str]]:
    """Return matching run records in ./runs or in the typed folder.

    Returns folders if no record matches.
    """
    from ebbtide.record.manifest import records_of

    folder = os.path.dirname(incomplete) if os.sep in incomplete else "runs"
    found = [os.path.join(folder, path.name) for path in reversed(records_of(Path(folder)))]
    fitting = [path for path in found if path.startswith(incomplete)]
    if os.sep not in incomplete:  # a run id
        fitting += [path for path in found if Path(path).name.startswith(incomplete) and path not in fitting]
    return [CompletionItem(path) for path in fitting] or complete_folder(incomplete)


def complete_step_kinds(incomplete: str) -> list[CompletionItem[str]]:
    """Return completions of the last kind of step in a comma-separated list."""
    from harness.random.drawing import GENERATORS

    return _last_of_list(incomplete, lambda word: _items(sorted(GENERATORS), word))


def complete_cluster(incomplete: str) -> list[CompletionItem[str]]:
    """Return the running clusters that match."""
    from ebbtide.daemon.control import cluster_names

    return _items(cluster_names(), incomplete)


def complete_file(incomplete: str) -> list[CompletionItem[str]]:
    """Let the shell complete a file."""
    return [CompletionItem(incomplete, type="file")]


def complete_folder(incomplete: str) -> list[CompletionItem[str]]:
    """Let the shell complete a folder."""
    return [CompletionItem(incomplete, type="dir")]


def _items(words: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _last_of_list(
    incomplete: str, complete_word: Callable[[str], list[CompletionItem[str]]]
) -> list[CompletionItem[str]]:
    """Return completions of the last word of a comma-separated list."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    items = [item for item in complete_word(last) if item.value not in taken]
    return [CompletionItem(f"{before}{comma}{item.value}", help=item.help) for item in items]
