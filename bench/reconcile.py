"""Ebbtide, DuckDB and pandas on the same records, side by side: `python -m bench.reconcile [EVENTS ...]`.

Each engine runs in a process of its own, in turn, so that what slows the host down slows all. The time of Ebbtide
is from the started session on, and so is CPU time, which says more on a host that does other work. Memory is the
peak of the resident sets of all its processes together. The last engine only reads the columns that the checks
need, once, with pyarrow: no engine can be faster. All must find the same items, or the run ends with 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import msgspec
import psutil

from bench.made_record import make_record

ENGINES = ("ebbtide", "duckdb", "pandas", "read once")
SIZES = (200_000, 2_000_000, 20_000_000)
PANDAS_EVENTS_MAX = 20_000_000
THREADS = 2
DUCKDB_MEMORY = "4GiB"
_SAMPLE_S = 0.05


class Clock:
    """Measures from here on: wall clock, and the CPU time of this process and of those that it started."""

    def __init__(self) -> None:
        self._began, self._used = time.monotonic(), self._cpu_s()

    def measured(self, found: dict[str, int] | None = None, start_s: float = 0.0) -> Measured:
        """What an engine took."""
        took_s, cpu_s = time.monotonic() - self._began, self._cpu_s() - self._used
        return Measured(time_s=took_s, cpu_s=cpu_s, start_s=start_s, found=found)

    def _cpu_s(self) -> float:
        me = psutil.Process()
        return sum(sum(one.cpu_times()[:2]) for one in (me, *me.children(recursive=True)))


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one engine; `found` counts items by kind, `cpu_s` is user and system time of all its processes."""

    time_s: float
    cpu_s: float = 0.0
    start_s: float = 0.0
    found: dict[str, int] | None = None
    peak_bytes: int = 0
    failure: str | None = None


def run_engine(engine: str, record: Path, scratch: Path) -> Measured:
    """What the child process does."""
    if engine == "ebbtide":
        from analysis.reconcile import reconcile
        from analysis.reconcile.files import rows_of
        from analysis.reconcile.session import session
        from harness.record.manifest import read_manifest

        began = time.monotonic()
        with session(rows=rows_of([record])) as spark:
            start_s = time.monotonic() - began
            clock = Clock()
            found: dict[str, int] = {}
            for one in reconcile(spark, record, read_manifest(record)).anomalies:
                found[one.kind] = found.get(one.kind, 0) + one.count
            return clock.measured(found, start_s)
    if engine == "duckdb":
        from bench.reconcile_duckdb import count_anomalies as with_duckdb

        clock = Clock()
        return clock.measured(with_duckdb(record, threads=THREADS, memory=DUCKDB_MEMORY, scratch=scratch))
    if engine == "pandas":
        from bench.reconcile_pandas import count_anomalies as with_pandas

        clock = Clock()
        return clock.measured(with_pandas(record))
    return _read_once(record)


def _read_once(record: Path) -> Measured:
    import pyarrow as pa
    import pyarrow.dataset as ds

    pa.set_cpu_count(THREADS)
    unused = {"error", "sent_ns", "done_ns", "acks", "polled_ns", "log_end_offset"}
    unused |= {"producer_id", "producer_epoch", "control", "timestamp_ms"}
    clock = Clock()
    for table in ("sends", "polls", "watermarks", "replicas"):
        rows = ds.dataset(record / table)
        for _ in rows.to_batches(columns=[name for name in rows.schema.names if name not in unused]):
            pass
    return clock.measured()


def measure(engine: str, record: Path, scratch: Path) -> Measured:
    """Run an engine in a process of its own and watch its memory."""
    command = [sys.executable, "-m", "bench.reconcile", "--engine", engine, "--record", str(record)]
    process = subprocess.Popen(
        [*command, "--scratch", str(scratch)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    peak = [0]
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(process.pid, peak, done))
    watcher.start()
    said, complained = process.communicate()
    done.set()
    watcher.join()
    if process.returncode != 0:
        last = complained.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        return Measured(time_s=0.0, peak_bytes=peak[0], failure=last[0][:200])
    return msgspec.structs.replace(msgspec.json.decode(said, type=Measured), peak_bytes=peak[0])


def _watch(pid: int, peak: list[int], done: threading.Event) -> None:
    process = psutil.Process(pid)
    while not done.wait(_SAMPLE_S):
        total = 0
        try:
            for one in (process, *process.children(recursive=True)):
                total += one.memory_info().rss
        except psutil.Error:
            continue
        peak[0] = max(peak[0], total)


def main() -> int:
    """Measure, and print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", nargs="*", type=float, help="sizes, by default 2e5 2e6 2e7; 2e8 on request")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each engine (default 1)")
    parser.add_argument("--folder", type=Path, help="where records are made (default: a temporary folder)")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.engine:
        print(msgspec.json.encode(run_engine(args.engine, args.record, args.scratch)).decode())
        return 0
    agreed = True
    print("| events | engine | time s (min to max) | events/s | peak GiB | times DuckDB | CPU s | CPU, times DuckDB |")
    print("|---|---|---|---|---|---|---|---|")
    for size in [int(events) for events in args.events] or SIZES:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            agreed &= _table(Path(folder), size, args.repeat)
    return 0 if agreed else 1


def _table(folder: Path, size: int, repeat: int) -> bool:
    """Measure all engines on one record and print their rows; whether all found the same."""
    rows = make_record(folder / "record", size)
    runs: dict[str, list[Measured]] = {engine: [] for engine in ENGINES}
    for _ in range(repeat):
        for engine in ENGINES:
            if engine != "pandas" or size <= PANDAS_EVENTS_MAX:
                runs[engine].append(measure(engine, folder / "record", folder))
    for engine, measured in runs.items():
        failed = next((one.failure for one in measured if one.failure), None)
        if failed or not measured:
            print(f"| {rows:,} | {engine} | {failed or 'not run at this size'} | | | | | |", flush=True)
            continue
        times = [one.time_s for one in measured]
        peak = max(one.peak_bytes for one in measured) / 2**30
        theirs = runs["duckdb"]
        print(
            f"| {rows:,} | {engine} | {_spread(times)} | {rows / median(times):,.0f} | {peak:.2f} "
            f"| {_ratios(times, [one.time_s for one in theirs])} | {_spread([one.cpu_s for one in measured])} "
            f"| {_ratios([one.cpu_s for one in measured], [one.cpu_s for one in theirs])} |",
            flush=True,
        )
    found = {json.dumps(one.found, sort_keys=True) for measured in runs.values() for one in measured if one.found}
    if len(found) > 1:
        print(f"the engines disagree: {' and '.join(sorted(found))}", file=sys.stderr)
    return len(found) == 1


def _spread(numbers: list[float]) -> str:
    return f"{median(numbers):.1f} ({min(numbers):.1f} to {max(numbers):.1f})"


def _ratios(mine: list[float], theirs: list[float]) -> str:
    """Of runs of the same round."""
    ratios = [one / its for one, its in zip(mine, theirs, strict=True) if its]
    return _spread(ratios) if ratios else ""


if __name__ == "__main__":
    sys.exit(main())
