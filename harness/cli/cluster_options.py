"""The options of every verb that runs scenarios on clusters: where records go, which runtime, how power is lost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ebbtide.errors import EbbtideError, UsageError
from ebbtide.releases.known import parse_version
from harness.cli import completing
from harness.cli.command import Args, Command, Group

if TYPE_CHECKING:
    from ebbtide.scenario.model import Scenario
    from harness.runner.launch import Wanted


def add_cluster_options(command: Command) -> None:
    """Declare them."""
    command.option(
        "--runs",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        completes=completing.folders,
        help="where records go (./runs)",
    )
    command.option(
        "--runtime",
        choices=("auto", "docker", "local"),
        default="auto",
        help="where the nodes run: docker (containers), local (processes of this host), auto: docker where a daemon "
        "answers and has an image of the release or can be given one (default)",
    )
    command.option("--image", metavar="REF", help="the Docker image to take, such as apache/kafka:3.9.1")
    command.option(
        "--power-loss",
        choices=("auto", "fs-shutdown", "truncate"),
        default="auto",
        help="how power is lost: fs-shutdown (what was not fsynced is gone), truncate (logs are cut back to their "
        "recovery points, the worst case), auto: fs-shutdown where the host can (default)",
    )
    command.flag(
        "--keep-write-back",
        help="let the kernel write dirty pages back during the run: a power loss may then lose nothing",
    )


_WHICH = "which, if several are up"


def add_cluster_before(group: Group) -> None:
    """Declare --cluster of a group of subcommands: it may stand before the subcommand, too."""
    group.option("--cluster", dest="cluster_before", metavar="NAME", help=_WHICH, completes=completing.cluster)


def add_cluster(command: Command, help: str = _WHICH, *, by_position: bool = False) -> None:
    """Declare --cluster of a command for a cluster that is up; `by_position`: its name alone will do."""
    command.option("--cluster", metavar="NAME", help=help, completes=completing.cluster)
    if by_position:
        command.argument(
            "cluster_alone",
            needed=False,
            metavar="NAME",
            help="the same as --cluster NAME",
            completes=completing.cluster,
        )


def named_cluster(args: Args) -> str | None:
    """The cluster that was named, however it was; None: the only one. Raises `UsageError` where there are two."""
    ways = ("cluster_before", "cluster", "cluster_alone")
    names = list(dict.fromkeys(name for way in ways if (name := getattr(args, way, None)) is not None))
    if len(names) > 1:
        raise UsageError("two clusters are named", where="--cluster", got=", ".join(names), allowed="one of them")
    return names[0] if names else None


def add_jobs_option(command: Command) -> None:
    """Declare --jobs."""
    command.option(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="runs at once, each in a process and on a cluster of its own (default 1); two share two cores well",
    )


def jobs_of(args: Args) -> int:
    """What was typed. Raises `UsageError`, and `HarnessError` where memory is short of so many clusters."""
    from cluster.doctor import require_memory

    jobs: int = args.jobs
    if jobs < 1:
        raise UsageError("out of range", where="--jobs", got=str(jobs), allowed="1 or more")
    if jobs > 1:
        require_memory(jobs)
    return jobs


def budget_s_of(args: Args) -> float:
    """Seconds of `--budget`, as 2h, 90m or 30s. Raises `UsageError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([hms])", args.budget.strip())
    if match is None or float(match[1]) == 0:
        allowed = "a number with its unit: 2h, 90m, 30s"
        raise UsageError("not a budget of time", where="--budget", got=repr(args.budget), allowed=allowed)
    return float(match[1]) * {"h": 3600.0, "m": 60.0, "s": 1.0}[match[2]]


def wanted_of(args: Args) -> Wanted:
    """What was typed."""
    from harness.runner.launch import Wanted

    return Wanted(
        runs=args.runs,
        runtime=args.runtime,
        image=args.image,
        power_loss=args.power_loss,
        keep_write_back=args.keep_write_back,
    )


def words_of(text: str, where: str) -> list[str]:
    """The words of a comma separated list, each once; none of an empty one.

    Raises `UsageError` for a comma with no word on a side: an unset variable of a script must not halve a comparison.
    """
    words = [word.strip() for word in text.split(",")]
    if words == [""]:
        return []
    if not all(words):
        raise UsageError("an empty word in a list", where=where, got=repr(text), allowed="a word between commas")
    return list(dict.fromkeys(words))


def releases_of(text: str) -> list[str]:
    """The releases of a comma separated list, each once. Raises `UsageError` when it names none, or what is none."""
    releases = words_of(text, "--kafka")
    if not releases:
        # An unset variable of a script must not start clusters of releases that nobody named.
        raise UsageError("no Kafka release is named", where="--kafka", got=repr(text), allowed="such as 3.9.1,4.3.1")
    for release in releases:
        release_of(release)
    return releases


def versions_of(words: Sequence[str]) -> list[str]:
    """The releases of some words, each once, also those that commas separate, as --kafka takes them.

    Raises `UsageError` for what is none.
    """
    releases = " ".join(words).replace(",", " ").split()
    wanted = list(dict.fromkeys(releases or words))
    for release in wanted:
        parse_version(release)
    return wanted


def release_of(text: str) -> str:
    """The one release of --kafka. Raises `UsageError` for several, and for what is none."""
    if "," in text:
        raise UsageError("several releases", where="--kafka", got=repr(text), allowed="one release, such as 4.3.1")
    try:
        parse_version(text)
    except UsageError as error:
        error.happened_at("--kafka")
        raise
    return text


def with_features(scenario: Scenario, words: Sequence[str]) -> Scenario:
    """The scenario, formatted with the feature levels of `NAME=LEVEL` words over its own.

    Raises `Problems` with every word that is none.
    """
    from ebbtide.errors import COMMAND_LINE, Problems
    from ebbtide.scenario.admin_meaning import feature_known

    levels: dict[str, int] = {}
    problems: list[EbbtideError] = []
    for word in words:
        name, equals, level = word.partition("=")
        if equals:
            problems += feature_known(name, "--feature")
        if level.isdecimal():
            levels[name] = int(level)
        else:
            allowed = "NAME=LEVEL, such as eligible.leader.replicas.version=0"
            problems.append(UsageError("not a feature level", where="--feature", got=repr(word), allowed=allowed))
    if problems:
        raise Problems(COMMAND_LINE, problems)
    return with_levels(scenario, levels)


def with_levels(scenario: Scenario, levels: Mapping[str, int]) -> Scenario:
    """The scenario, formatted with these feature levels over its own."""
    cluster = scenario.cluster
    return replace(scenario, cluster=replace(cluster, features={**cluster.features, **levels}))
