"""`ebbtide runs [DIR]`: the run records in a folder, newest first."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

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
    import msgspec

    from harness.errors import UsageError

    if not args.directory.is_dir():
        raise UsageError(
            "no such folder", where=str(args.directory), next="ebbtide run last-replica-standing --kafka 3.9.1"
        )
    folders = [folder for folder in args.directory.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    rows = sorted(map(_row, folders), key=lambda row: int(str(row["start_ns"] or 0)), reverse=True)
    if args.json:
        for row in rows:
            print(msgspec.json.encode(row).decode())
        return ExitCode.AS_PREDICTED
    if not rows:
        print(f"no run records in {args.directory}\nnext: ebbtide run last-replica-standing --kafka 3.9.1")
        return ExitCode.AS_PREDICTED
    _print(rows)
    return ExitCode.AS_PREDICTED


def _row(folder: Path) -> dict[str, object]:
    from analysis.verdict import read_verdict
    from harness.errors import UsageError
    from harness.record.manifest import read_manifest

    row: dict[str, object] = {"record": str(folder), "bytes": _size(folder)}
    try:
        manifest = read_manifest(folder)
    except UsageError as error:
        return {**row, "run_id": folder.name, "status": "damaged", "start_ns": None, "why": error.what}
    row |= {
        "run_id": manifest.run_id,
        "scenario": manifest.scenario,
        "kafka": manifest.kafka,
        "status": manifest.status,
        "start_ns": manifest.start_ns,
    }
    verdict = read_verdict(folder)
    if verdict is not None:
        row |= {"outcome": verdict.outcome, "acked": verdict.counts.acked, "lost": _lost(verdict)}
    return row


def _lost(verdict: Verdict) -> int:
    return sum(one.count for one in verdict.anomalies if one.kind == "lost")


def _size(folder: Path) -> int:
    return sum((Path(root) / name).lstat().st_size for root, _, names in os.walk(folder) for name in names)


def _print(rows: list[dict[str, object]]) -> None:
    from harness.cli.output import print_table

    def cells(row: dict[str, object]) -> list[str]:
        outcome = row.get("outcome") or (row.get("why", "not judged"))
        acked, lost = row.get("acked"), row.get("lost")
        counts = f"{acked:,} / {lost:,}" if isinstance(acked, int) and isinstance(lost, int) else "-"
        names = [str(row.get(key) or "-") for key in ("run_id", "scenario", "kafka", "status")]
        return [*names, str(outcome), counts, _human(int(str(row["bytes"])))]

    print_table(("run", "scenario", "kafka", "status", "outcome", "acked / lost", "size"), [cells(row) for row in rows])
    print("\nnext: ebbtide analyze RECORD")


def _human(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"
