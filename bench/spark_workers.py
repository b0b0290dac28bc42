"""Measures how much sooner a standalone Spark cluster of two workers reconciles than one of one worker.

Run `python -m bench.spark_workers [EVENTS] [--rounds N] [--folder DIR]`. Each round starts a cluster of one worker,
then one of two. A worker has one core. Both reconcile the same made record, and the time starts after the session.
Each cluster must find exactly the planted items. Otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from analysis.record.record import Record
from analysis.spark.session import session
from bench.measured_on import measured_on
from bench.reconcile import events, kept_record, maker
from bench.reconcile_table import spread
from bench.reconciling import reconcile
from bench.standalone_spark import standalone_cluster
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.signals import unwind_on_signals

EVENTS = 20_000_000
WORKERS = (1, 2)


def main() -> int:
    """Measure, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", nargs="?", type=events, default=EVENTS, help="size of the record (default 2e7)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the record is kept (default: a temporary folder)")
    args = parser.parse_args()
    with unwind_on_signals(), tempfile.TemporaryDirectory(prefix="ebbtide-bench-", dir=args.folder) as scratch:
        made_by = maker()
        record, rows = kept_record(args.folder or Path(scratch), args.events, Path(scratch), made_by)
        took_s: dict[int, list[float]] = {workers: [] for workers in WORKERS}
        for number in range(args.rounds):
            for workers in WORKERS:
                folder = Path(scratch, f"round-{number}-{workers}")
                folder.mkdir()
                seconds, found = _reconcile(record, folder, workers)
                if found != made_by.planted:
                    print(f"{workers} workers: found {found}, planted {dict(made_by.planted)}", file=sys.stderr)
                    return 1
                took_s[workers].append(seconds)
    print(f"{measured_on()}, {rows:,} events\n\n| workers | time s (min to max) | times one worker |\n|---|---|---|")
    for workers, times in took_s.items():
        ratios = [more / one for one, more in zip(took_s[1], times, strict=True)]
        print(f"| {workers} | {spread(times)} | {spread(ratios, 2)} |")
    return 0


def _reconcile(record: Path, folder: Path, workers: int) -> tuple[float, dict[str, int]]:
    """Return the seconds that a new cluster needs, and the number of items that it finds of each kind."""
    with standalone_cluster(folder, workers=workers) as (url, _), session(url) as spark:
        began = time.monotonic()
        reconciled = reconcile(spark, Record(RecordFolder(record), read_manifest(RecordFolder(record))))
        found: Counter[str] = Counter()
        for one in reconciled.anomalies:
            found[one.kind] += one.count
        return time.monotonic() - began, dict(found)


if __name__ == "__main__":
    sys.exit(main())
