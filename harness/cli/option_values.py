"""The values that verbs share: clusters, releases, budgets, jobs and feature levels, and run records as arguments."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from ebbtide.errors import COMMAND_LINE, EbbtideError, Problems, UsageError
from ebbtide.releases.known_releases import parse_version, version_of
from ebbtide.scenario.mismatches import mismatches
from ebbtide.scenario.plain_values import from_plain
from ebbtide.shown_text import plural, some_of
from ebbtide.untrusted.values import decode_toml
from harness.cli.command import Args

if TYPE_CHECKING:
    from ebbtide.scenario.model import Scenario
    from harness.runner.launch import LaunchOptions


T = TypeVar("T")
_SHOWN_MAX = 40
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_PORT_MAX = 65_535


def publish_of(word: str | None) -> tuple[int, bool] | None:
    """Return the first port of --publish, and whether clients connect with TLS; None: no ports. Raises `UsageError`."""
    from ebbtide.scenario.model import MAX_BROKERS

    if word is None:
        return None
    port = word.removeprefix("tls:")
    if not (port.isascii() and port.isdigit() and int(port) <= _PORT_MAX - MAX_BROKERS):
        allowed = f"a port from 0 to {_PORT_MAX - MAX_BROKERS}, or tls:PORT"
        raise UsageError("no port", where="--publish", got=word, allowed=allowed)
    return int(port), port != word


def named_cluster(args: Args) -> str | None:
    """Return the cluster that was named, None if none was.

    Raises `UsageError` for two names.
    """
    ways = ("cluster_before_action", "cluster_before_kind", "cluster", "cluster_alone")
    names = list(dict.fromkeys(name for way in ways if (name := getattr(args, way, None)) is not None))
    if len(names) > 1:
        raise UsageError(
            "the command names two clusters", where="--cluster", got=", ".join(names), allowed="one of them"
        )
    return names[0] if names else None


def table_of_words(words: Sequence[str], kind: type[T], of_kafka: str) -> T:
    """Return a table of scenario files whose keys are typed as KEY=VALUE.

    Kafka's own names, which have dots, are keys of its table `of_kafka`. Raises `Problems`.
    """
    raw: dict[str, Any] = {}
    problems: list[EbbtideError] = []
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            problems.append(UsageError("not a setting", got=repr(word), allowed="KEY=VALUE, such as brokers=3"))
        elif "." in key:
            raw.setdefault(of_kafka, {})[key] = text
        else:
            try:
                raw[key] = decode_toml(f"x = {text}\n")["x"]
            except ValueError:
                raw[key] = text  # a word may stand without its quotes
    problems += mismatches(raw, kind)
    if problems:
        raise Problems(COMMAND_LINE, problems)
    return from_plain(raw, kind)


def jobs_of(args: Args) -> int:
    """Return --jobs.

    Raises `HarnessError` if memory is too small for these clusters.
    """
    from cluster.doctor import require_memory

    jobs: int = args.jobs
    if jobs > 1:
        require_memory(jobs)
    return jobs


def addresses_of(flag: str, text: str) -> tuple[str, ...]:
    """Return the addresses of an option, each once. Raises `UsageError` for anything else than `HOST:PORT,...`."""
    found = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
    wrong = [one for one in found if not _is_address(one)]
    if wrong or not found:
        got = repr((", ".join(wrong) or text)[:_SHOWN_MAX])
        raise UsageError(
            "not an address",
            where=flag,
            got=got,
            allowed="a host and a port, such as broker1.example:9092; several by commas",
        )
    return found


def _is_address(text: str) -> bool:
    match = _ADDRESS.fullmatch(text)
    return match is not None and 1 <= int(match[2]) <= _PORT_MAX


def launch_options_of(args: Args) -> LaunchOptions:
    """Return the options of `add_launch_options` as typed."""
    from harness.runner.launch import LaunchOptions

    return LaunchOptions(
        runs=args.runs,
        runtime=args.runtime,
        image=args.image,
        power_loss=args.power_loss,
    )


def split_list(text: str, where: str) -> list[str]:
    """Return the words of a comma-separated list, each once.

    Raises `UsageError` for a comma without a word on both sides: an unset variable in a script must not halve a
    comparison.
    """
    words = [word.strip() for word in text.split(",")]
    if words == [""]:
        return []
    if not all(words):
        raise UsageError("the list has an empty word", where=where, got=repr(text), allowed="a word between commas")
    return list(dict.fromkeys(words))


def releases_of(text: str) -> list[str]:
    """Return the releases of a comma-separated list, each once.

    Raises `UsageError` for an empty list, and for a word that is not a release.
    """
    releases = split_list(text, "--kafka")
    if not releases:
        # An unset variable in a script must not start clusters of releases that nobody named.
        raise UsageError("--kafka names no release", where="--kafka", got=repr(text), allowed="such as 3.9.1,4.3.1")
    for release in releases:
        release_of(release)
    return releases


def versions_of(words: Sequence[str]) -> list[str]:
    """Return the releases in these words, each once, and the names of the builds whose jars they name.

    A word may have several, separated by commas.

    Raises `UsageError` for a word that is not a release.
    """
    from cluster.builds.naming import named_kafka

    named = named_kafka(",".join(words), lambda line: print(line, file=sys.stderr))
    wanted = list(dict.fromkeys(named.replace(",", " ").split() or words))
    for release in wanted:
        parse_version(release)
    return wanted


def release_of(text: str) -> str:
    """Return the one release of --kafka.

    Raises `UsageError` for several, or for another word.
    """
    if "," in text:
        raise UsageError(
            "only one release is possible here", where="--kafka", got=repr(text), allowed="one release, such as 4.3.1"
        )
    try:
        parse_version(text)
    except UsageError as error:
        error.add_where("--kafka")
        raise
    return text


def with_upgrade(scenario: Scenario, text: str) -> tuple[Scenario, list[str]]:
    """Return the scenario on a cluster that --upgrade FROM:TO moves from one release to another, and TO.

    Raises `UsageError` for anything else than two releases.
    """
    from cluster.builds.naming import named_kafka

    first, colon, to = text.partition(":")
    try:
        if not colon:
            raise UsageError("not two releases", got=repr(text), allowed="FROM:TO, such as 3.9.1:4.3.1")
        parse_version(first)
        to = named_kafka(to, lambda line: print(line, file=sys.stderr))
        parse_version(to)
    except UsageError as error:
        error.add_where("--upgrade")
        raise
    moved = replace(scenario, cluster=replace(scenario.cluster, formed_on=first))
    _refuse_upgrade(moved, first, to)
    return moved, [to]


def _refuse_upgrade(scenario: Scenario, first: str, to: str) -> None:
    """Raise `UsageError` if Kafka refuses to move the scenario's cluster between the releases of --upgrade."""

    from ebbtide.scenario.validate_upgrades import validate_upgrades

    for problem in validate_upgrades(replace(scenario, kafka=(to,))):
        if problem.where == "cluster.formed_on":
            is_turned = version_of(first) > version_of(to)
            raise UsageError(
                problem.what,
                where="--upgrade",
                got=f"{first}:{to}",
                allowed=f"FROM:TO, did you mean {to}:{first}?" if is_turned else problem.allowed,
                next=f"--upgrade {to}:{first}" if is_turned else "ebbtide run --help",
            )


def with_features(scenario: Scenario, words: Sequence[str]) -> Scenario:
    """Return the scenario with the feature levels of the given `NAME=LEVEL` words.

    They replace the scenario's own levels. Raises `UsageError` with all words that are not `NAME=LEVEL`.
    """
    from ebbtide.scenario.validate_upgrades import validate_feature_name

    levels: dict[str, int] = {}
    problems: list[EbbtideError] = []
    for word in words:
        name, equals, level = word.partition("=")
        if equals:
            problems += validate_feature_name(name, "--feature")
        if level.isdecimal():
            levels[name] = int(level)
        else:
            allowed = "NAME=LEVEL, such as eligible.leader.replicas.version=0"
            problems.append(UsageError("not a feature level", where="--feature", got=repr(word), allowed=allowed))
    if problems:
        raise problems[0] if len(problems) == 1 else Problems(COMMAND_LINE, problems)
    return with_levels(scenario, levels)


def with_levels(scenario: Scenario, levels: Mapping[str, int]) -> Scenario:
    """Return the scenario with these feature levels instead of its own."""
    cluster = scenario.cluster
    return replace(scenario, cluster=replace(cluster, features={**cluster.features, **levels}))


_NAMED_MAX = 3


def without_files_beside(paths: Sequence[Path]) -> list[Path]:
    """Return the paths without the files that lie beside a run record of the list; a note names each.

    `runs/*` also names the pages of comparisons, which lie there. A file anywhere else is a mistake, and stays.
    """
    from ebbtide.record.manifest import is_record

    folders = {path.parent for path in paths if is_record(path)}
    kept = []
    for path in paths:
        if path.parent in folders and path.is_file():
            print(f"{path}: a file, and not a run record, so it is skipped", file=sys.stderr)
        else:
            kept.append(path)
    return kept


def note_left_out(records: Sequence[Path], *, going: Sequence[Path], plain: Sequence[Path]) -> None:
    """Print one line that names what `analyze` leaves out of a folder.

    It prints nothing if it leaves out nothing. Some of the records are of runs that are `going`, or of `plain`
    clusters. A folder of something else may have been meant as a record; a file, or what is hidden, is not.
    """
    from ebbtide.record.manifest import MANIFEST
    from ebbtide.untrusted.files import is_folder

    known = set(records)
    others = sorted(
        path
        for folder in {record.parent for record in records}
        for path in folder.iterdir()
        if path not in known and not path.name.startswith(".")
    )
    parts = [
        f"{plural(len(paths), noun)}{which} ({_names_of(paths)})"
        for noun, which, paths in (
            ("run", " still running", going),
            ("plain cluster", "", plain),
            ("folder", f" without {MANIFEST}", [path for path in others if is_folder(path)]),
        )
        if paths
    ]
    if parts:
        print(f"left out of {records[0].parent}: {', '.join(parts)}", file=sys.stderr)


def refuse_folder_of_folders(folder: Path) -> None:
    """Raise `UsageError` with the folders to type, if the folders of this folder have records in them."""
    from ebbtide.record.manifest import MANIFEST

    below = sorted({path.parent.parent for path in folder.glob(f"[!.]*/[!.]*/{MANIFEST}")})
    if below:
        raise UsageError(
            "no run record in this folder, but in folders below it",
            where=str(folder),
            got=_names_of(below),
            allowed="run records, or folders of run records",
            next=f"ebbtide analyze {shlex.join(map(str, below[:_NAMED_MAX]))}",
        )


def _names_of(paths: Sequence[Path]) -> str:
    return some_of([path.name for path in paths], _NAMED_MAX)
