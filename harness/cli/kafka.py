"""`ebbtide kafka fetch | list | image`: fetches and lists Kafka releases on this host."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

import msgspec

from cluster.jars.releases import CachedRelease, FetchEvent, cached_releases, fetch
from ebbtide.errors import ExitCode
from ebbtide.releases.known_releases import KNOWN, OLDEST, KnownRelease, age_of, judged_as
from ebbtide.shown_text import plural
from harness.cli import completing, options
from harness.cli.command import Args, Group
from harness.cli.option_values import versions_of
from harness.cli.output import print_json, print_table


def command() -> Group:
    """Declare the verb and its actions."""
    group = Group(
        "Fetch Kafka releases with Maven, list the cached and known releases, and build Docker images of them.",
        dest="action",
        metavar="ACTION",
    )
    fetch_ = group.action(
        "fetch",
        help="download releases into the cache",
        description="Download releases with Maven into the cache. Keeps an intact release, and replaces a damaged one.",
    )
    fetch_.argument(
        "versions",
        many=True,
        metavar="RELEASE",
        completes=completing.complete_releases,
        help="a Kafka release such as 4.3.1, or several",
    )
    options.add_json_option(fetch_)
    list_ = group.action(
        "list",
        help="list the cached and the known releases",
        description="List the cached releases, and the releases that Ebbtide knows.",
        codes={0: "every cached release is intact", 3: "a cached release is damaged, or the host failed"},
    )
    options.add_json_option(list_)
    group.lazy_action("image", "harness.cli.kafka_image", help="build, list and remove Docker images of releases")
    return group


def run(args: Args) -> ExitCode:
    """Fetch or list releases."""
    return _fetch(args.versions, as_json=args.json) if args.action == "fetch" else _list(args.json)


def _fetch(versions: Sequence[str], *, as_json: bool) -> ExitCode:
    wanted = versions_of(versions)
    if as_json:
        known = {release.version: release for release in KNOWN}
        fetched = {version: fetch(version, lambda event: _print_event(event, sys.stderr)) for version in wanted}
        print_json([_row(version, release, known.get(version)) for version, release in fetched.items()], pretty=True)
        return ExitCode.AS_PREDICTED
    for version in wanted:
        release = _fetch_on_terminal(version) if sys.stdout.isatty() else fetch(version, _print_event)
        print(
            f"Kafka {version}: {plural(len(release.jars), 'jar')}, {_megabytes(release)}, in {release.dir}", flush=True
        )
    return ExitCode.AS_PREDICTED


def _fetch_on_terminal(version: str) -> CachedRelease:
    from rich.spinner import Spinner

    from ebbtide.shown_console import PlainTextConsole, new_view

    status = Spinner("dots", f"Kafka {version}")
    with new_view(PlainTextConsole(), status):

        def show(event: FetchEvent) -> None:
            what = "waiting for another fetch to end" if event.phase == "waiting" else plural(event.jars, "jar")
            status.update(text=f"Kafka {version}: {what}")

        return fetch(version, show)


def _print_event(event: FetchEvent, to: TextIO | None = None) -> None:
    if event.phase == "waiting":
        print(f"Kafka {event.version}: waiting for another fetch to end", file=to, flush=True)
    elif event.phase == "fetching" and event.jars == 0:
        print(f"Kafka {event.version}: fetching with Maven", file=to, flush=True)
    elif event.phase == "fetched":
        print(f"Kafka {event.version}: fetched in {event.took_s:.1f} s", file=to, flush=True)


class ReleaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """One release of the list, cached or known.

    `state` is `not fetched`, `ok` or `damaged`. `nearest`: the known release whose `protocol` judges its runs.
    """

    version: str
    state: str
    problem: str | None = None
    size_bytes: int | None = None
    folder: str | None = None
    measured: bool = False
    protocol: str
    nearest: str


def _row(version: str, release: CachedRelease | None, known: KnownRelease | None) -> ReleaseRow:
    nearest = judged_as(version)
    row = ReleaseRow(
        version=version,
        state="not fetched",
        measured=known is not None and known.measured,
        protocol=nearest.protocol,
        nearest=nearest.version,
    )
    if release is None:
        return row
    return msgspec.structs.replace(
        row,
        state="damaged" if release.problem else "ok",
        problem=release.problem,
        size_bytes=release.size_bytes,
        folder=str(release.dir),
    )


def _list(json: bool) -> ExitCode:
    here = {release.version: release for release in cached_releases()}
    known = {release.version: release for release in KNOWN}
    rows = [_row(v, here.get(v), known.get(v)) for v in sorted(here.keys() | known.keys(), key=age_of)]
    if json:
        print_json(rows, pretty=True)
    else:
        print_table(
            ("release", "state", "size", "measured", "protocol"),
            [
                (
                    row.version,
                    f"damaged: {row.problem}" if row.problem else row.state,
                    _megabytes(here[row.version]) if row.version in here else "",
                    "yes" if row.measured else "",
                    row.protocol if row.version in known else f"{row.protocol} (as {row.nearest})",
                )
                for row in rows
            ],
        )
        print("\nmeasured: runs of this release were judged; protocol: the rules for lost replicas that judge its runs")
        print("compared: names and sizes of jars; a run and `ebbtide kafka fetch` compare the SHA-256 of each")
        print(f"next: ebbtide kafka fetch RELEASE    (any release from {OLDEST} on)")
    return ExitCode.HARNESS_FAILED if any(row.problem for row in rows) else ExitCode.AS_PREDICTED


def _megabytes(release: CachedRelease) -> str:
    return f"{release.size_bytes / 1e6:.0f} MB"
