"""`ebbtide nightly site STORE...`: writes the nights of stores as a static site."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.errors import ExitCode, UsageError
from ebbtide.shown_text import has_other_name
from harness.cli import completing, options
from harness.cli.command import Args, Command
from harness.cli.output import print_json

if TYPE_CHECKING:
    from harness.cli.json_outputs import SiteOutput
    from harness.site.model import Site

SITE = "site"
"""The folder of a store where its site is written by default."""


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Write the nights of one or more stores as a static site: scenarios by releases, the trend, what is new, and "
        "each run's report. The pages need no server and no network. Several stores may be parts of one night, or "
        "nights of several machines.",
        epilog="example: ebbtide nightly site /var/lib/ebbtide --out public",
    )
    command.argument(
        "stores",
        many=True,
        metavar="STORE",
        type=Path,
        is_record=True,
        completes=completing.complete_folder,
        help="a store of nights, as of `ebbtide nightly --store STORE`, or a .tgz or .zip of one",
    )
    options.add_out_option(command, "the folder of the site (default: STORE/site)", "DIR")
    options.add_json_option(command)
    return command


def run(args: Args) -> ExitCode:
    """Write the site, and print its first page. Raises `UsageError`."""
    from ebbtide.record.manifest import is_record
    from harness.nightly.store import Store
    from harness.site.model import site_of, write_site

    for folder in args.stores:
        if is_record(folder):
            raise UsageError(
                "this is a run record, not a store of nights; its report is report.html",
                where=str(folder),
                next=f"ebbtide analyze {shlex.quote(str(folder))}",
            )
        if not (folder / "history.jsonl").is_file():
            raise _without_history(folder)
    if args.out is None and (len(args.stores) > 1 or has_other_name(args.stores[0])):
        what = "several stores, and an archive, need the folder of their site"
        raise UsageError(what, where="--out", allowed="--out DIR")
    out = args.out if args.out is not None else args.stores[0] / SITE
    stores = [Store(folder) for folder in args.stores]
    site = site_of(stores)
    index = write_site(site, out)
    if args.json:
        print_json(_output(index, site))
    else:
        print(f"site: {index}")
    return ExitCode.AS_PREDICTED


def _without_history(folder: Path) -> UsageError:
    next_ = f"ebbtide nightly --store {shlex.quote(str(folder))}"
    if not any(folder.glob("nights/*/plan.json")):
        return UsageError("not a store of nights: history.jsonl is missing", where=str(folder), next=next_)
    return UsageError(
        "no run of this store has ended yet",
        where=str(folder),
        next=f"{next_}    (with the options of the night that was interrupted, it continues that night)",
    )


def _output(index: Path, site: Site) -> SiteOutput:
    from harness.cli.json_outputs import SiteCell, SiteOutput
    from harness.site.model import CELLS

    cells = tuple(
        SiteCell(
            scenario=cell.scenario,
            target=cell.target,
            last=cell.last.mark,
            runs=len(cell.runs),
            change=cell.change,
            page=str(index.parent / CELLS / cell.page),
        )
        for cell in site.cells.values()
    )
    return SiteOutput(
        page=str(index), nights=tuple(one.night for one in site.nights), cells=cells, random_runs=len(site.drawn)
    )
