"""`ebbtide runs [DIR]`: the run records in a folder, newest first."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harness.errors import ExitCode

if TYPE_CHECKING:
    from analysis.verdict import Verdict

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.description = "List the run records in a folder, newest first; damaged ones are listed as such."
    parser.add_argument("directory", nargs="?", metavar="DIR", type=Path, default=Path("runs"), help="default: runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def run(args: argparse.Namespace) -> ExitCode:
    """Print the list. Raises `UsageError` when there is no such folder."""
    from harness.errors import UsageError

    if not args.directory.is_dir():
        raise UsageError(
            "no such folder", where=str(args.directory), next="ebbtide run last-replica-standing --kafka 3.9.1"
        )
    folders = [folder for folder in args.directory.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    rows = sorted(map(_row, folders), key=lambda row: row.start_ns or 0, reverse=True)
    if args.json:
        for row in rows:
            print(msgspec.json.encode(row).decode())
        return ExitCode.AS_PREDICTED
    if not rows:
        print(f"no run records in {args.directory}\nnext: ebbtide run last-replica-standing --kafka 3.9.1")
        return ExitCode.AS_PREDICTED
    _print(rows)
    return ExitCode.AS_PREDICTED


class _Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record; a damaged one has no more than `why`, and one that was not judged has no outcome and no counts."""

    record: str
    bytes: int
    run_id: str
    scenario: str | None = None
    kafka: str | None = None
    status: str
    start_ns: int | None
    outcome: str | None = None
    acked: int | None = None
    lost: int | None = None
    why: str | None = None


def _row(folder: Path) -> _Row:
    from analysis.verdict import read_verdict
    from harness.errors import UsageError
    from harness.record.manifest import read_manifest

    size_bytes = _size(folder)
    try:
        manifest = read_manifest(folder)
    except UsageError as error:
        return _Row(
            record=str(folder), bytes=size_bytes, run_id=folder.name, status="damaged", start_ns=None, why=error.what
        )
    verdict = read_verdict(folder)
    return _Row(
        record=str(folder),
        bytes=size_bytes,
        run_id=manifest.run_id,
        scenario=manifest.scenario,
        kafka=manifest.kafka,
        status=manifest.status,
        start_ns=manifest.start_ns,
        outcome=verdict.outcome if verdict else None,
        acked=verdict.counts.acked if verdict else None,
        lost=_lost(verdict) if verdict else None,
    )


def _lost(verdict: Verdict) -> int:
    return sum(one.count for one in verdict.anomalies if one.kind == "lost")


def _size(folder: Path) -> int:
    return sum((Path(root) / name).lstat().st_size for root, _, names in os.walk(folder) for name in names)


def _print(rows: list[_Row]) -> None:
    from harness.cli.output import print_table

    def cells(row: _Row) -> list[str]:
        outcome = row.outcome or row.why or "not judged"
        counts = f"{row.acked:,} / {row.lost:,}" if row.acked is not None and row.lost is not None else "-"
        names = [name or "-" for name in (row.run_id, row.scenario, row.kafka, row.status)]
        return [*names, outcome, counts, _human(row.bytes)]

    print_table(("run", "scenario", "kafka", "status", "outcome", "acked / lost", "size"), [cells(row) for row in rows])
    print("\nnext: ebbtide analyze RECORD")


def _human(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"
