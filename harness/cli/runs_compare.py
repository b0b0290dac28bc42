"""`ebbtide runs compare RUN RUN...`: puts judged runs on one time axis, and says what differs.

What `ebbtide runs compare` prints with --json.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from analysis.compare.differences import ComparedRow
from ebbtide.errors import EbbtideError, ExitCode, UsageError
from ebbtide.named_files import check_named_file
from ebbtide.record.files import RecordFolder
from ebbtide.shown_text import has_other_name, plural, shown_path
from harness.cli import completing, options
from harness.cli.command import Args, Command
from harness.cli.option_values import without_files_beside
from harness.cli.output import print_json

if TYPE_CHECKING:
    from analysis.compare.page import RunComparison

_NAME_MAX = 100
"""Characters of a record's folder in the name of a page: file systems allow 255 in all."""
_TIME = re.compile(r"^[0-9]{8}T[0-9]{6}-")


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Compare judged runs of one scenario, for instance on two releases. The page has a picture of each run on the "
        "same time axis. It says what differs: which broker was elected and how, and what was lost. A run that did not "
        "complete is named, with the reason.",
        epilog="example: ebbtide runs compare runs/RUN-ON-3.9.1 runs/RUN-ON-4.3.1",
        codes={2: "fewer than two runs can be compared: the others sent no record"},
    )
    command.argument(
        "runs",
        many=True,
        metavar="RUN",
        type=Path,
        is_record=True,
        completes=completing.complete_record,
        help="run records, or .tgz or .zip of them, two or more",
    )
    options.add_out_option(
        command,
        "the page, which replaces an older one (default: compare-RUN-with-RUN.html beside the last record)",
        "FILE.html",
    )
    options.add_json_option(command)
    return command


def run(args: Args) -> ExitCode:
    """Write the page, and print what differs and where the page is. Raises `UsageError`."""
    from analysis.compare.page import write_comparison

    records = without_files_beside(args.runs)
    if len(records) < 2:
        raise _too_few_runs_error(records[0])
    times = Counter(one.resolve() for one in records)
    if twice := next((one for one in records if times[one.resolve()] > 1), None):
        raise UsageError(
            "a run cannot be compared with itself",
            where="RUN",
            got=f"{twice} twice",
            allowed="different runs",
            next=f"ebbtide runs --runs {shlex.quote(str(twice.parent))}    (lists the runs to compare it with)",
        )
    if args.out is not None:
        check_named_file(args.out, "page", "--out")
    path = args.out if args.out is not None else default_page(records)
    shown = shown_page(path)
    compared = write_comparison(records, path)
    if args.json:
        print_json(compare_output(compared, path))
    else:
        _print_page(compared.sentences, shown)
    can_compare = sum(one.is_compared for one in compared.runs) > 1
    return ExitCode.AS_PREDICTED if can_compare else ExitCode.INCONCLUSIVE


def _too_few_runs_error(alone: Path) -> UsageError:
    """Return the error of one run, or of a folder of runs. Raises `UsageError` for a path that is neither."""
    from ebbtide.record.manifest import is_record, read_manifest, records_of

    is_run = is_record(alone)
    folder = alone.parent if is_run else alone
    beside = records_of(folder) or records_of(folder / "runs")
    if not is_run and not beside:
        read_manifest(RecordFolder(alone))  # raises for what is no record
    listed = f"ebbtide runs --runs {shlex.quote(str(beside[0].parent if beside else folder))}"
    return UsageError(
        "a comparison needs two runs or more",
        where="RUN",
        got=f"only {alone}" if is_run else f"{alone}, a folder of {plural(len(beside), 'run')}",
        allowed="2 or more runs, preferably of one scenario",
        next=f"{listed}    (lists the runs; then type `ebbtide runs compare RUN OTHER_RUN`)",
    )


def default_page(records: Sequence[Path]) -> Path:
    """Return the page beside the last record, or here if that is packed, named by the folders of the first and last.

    Their times are left out, and of the last name what it begins with as the first one does.
    """
    first, last = (_TIME.sub("", one.resolve().name)[:_NAME_MAX] for one in (records[0], records[-1]))
    alike = list(takewhile(lambda pair: pair[0] == pair[1], zip(first.split("-"), last.split("-"), strict=False)))
    between = f"-{len(records) - 2}-more" if len(records) > 2 else ""
    folder = Path() if has_other_name(records[-1]) else records[-1].resolve().parent
    return folder / f"compare-{first}{between}-with-{'-'.join(last.split('-')[len(alike) :]) or last}.html"


def shown_page(path: Path) -> str:
    """Return how the terminal names a page that is about to be written; says that it replaces one."""
    return f"{shown_path(path)}    (replaces an earlier page)" if path.exists() else shown_path(path)


def print_comparison(records: Sequence[Path]) -> None:
    """Write the page on some records that were just judged, and print its path, or why there is none."""
    from analysis.compare.page import write_comparison

    path = default_page(records)
    shown = shown_page(path)
    print()
    try:
        compared = write_comparison(records, path)
    except EbbtideError as error:
        print(f"comparison: none: {error.what}")
    else:
        _print_page(compared.failures, shown)


def _print_page(sentences: Sequence[str], shown: str) -> None:
    """Print sentences on the compared runs, and then where the page is."""
    for sentence in sentences:
        print(sentence)
    print(f"comparison: {shown}")


class ComparedVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a comparison; `loses`: it lost committed records.

    `failure` says why the run did not complete, null if it did. `is_compared` is false for a run that then sent no
    record, so that nothing can be compared for it.
    """

    record: str
    run_id: str
    target: str
    outcome: str
    headline: str
    loses: bool
    failure: str | None
    is_compared: bool


class CompareOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between runs, and the page that shows it.

    `sentences` say it in words. `rows` and `elections` have a cell for each run; `elections` are those of `partition`,
    which is null if the runs have no partition in common.
    """

    page: str
    runs: tuple[ComparedVerdict, ...]
    partition: str | None
    sentences: tuple[str, ...]
    elections: tuple[ComparedRow, ...]
    rows: tuple[ComparedRow, ...]


def compare_output(compared: RunComparison, page: Path) -> CompareOutput:
    """Return a comparison without its pictures."""
    runs = msgspec.convert(compared.runs, tuple[ComparedVerdict, ...], from_attributes=True)
    return CompareOutput(
        page=str(page),
        runs=runs,
        partition=compared.partition,
        sentences=compared.sentences,
        elections=compared.elections,
        rows=compared.rows,
    )
