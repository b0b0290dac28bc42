"""Measures how long judging a small record takes: `python -m bench.small_record RECORD [--rounds N] [--vs COMMAND]`.

Each round judges a copy of the record with `ebbtide analyze`, from the prompt to the verdict. With `--vs`, the other
command (the `ebbtide` of another checkout) judges another copy in the same round, and the ratios compare runs of one
round. The CPU seconds are user and system, of all processes together. The first round is not counted: it may write the
class archive. With `--bare`, each round also starts a PySpark session of its own with default settings, which
aggregates some numbers and stops. At last the record is judged `--warm` times, one by one, in one session of this
checkout; of many judgements it prints every hundredth, and the medians of those since the one before.

Exit code 1 if the commands write different verdicts, or a command fails.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import psutil

from bench.reconcile_table import spread
from ebbtide.errors import ExitCode

JUDGED = frozenset({ExitCode.AS_PREDICTED, ExitCode.CONTRADICTED, ExitCode.INCONCLUSIVE})
FEW, EVERY = 5, 100
"""Each of the first few judgements in one session is printed, and then every so many."""
BARE = """
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
spark.range(4000).groupBy((F.col("id") % 10).alias("key")).agg(F.count("*"), F.sum("id")).collect()
spark.stop()
"""
"""What anybody's smallest use of PySpark does."""


class Cost(msgspec.Struct, frozen=True):
    """The seconds that one judgement took."""

    wall_s: float
    cpu_s: float


def main() -> int:
    """Measure, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path)
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default 5); 0: only --warm")
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--command", default=f"{sys.executable} -P -m ebbtide")
    parser.add_argument("--vs", metavar="COMMAND")
    parser.add_argument("--bare", action="store_true")
    args = parser.parse_args()
    commands = [args.command, *([args.vs] if args.vs else [])]
    with tempfile.TemporaryDirectory(prefix="ebbtide-bench-") as folder:
        copies = [Path(shutil.copytree(args.record, Path(folder, str(at), args.record.name))) for at in range(2)]
        costs: list[list[Cost]] = [[] for _ in commands]
        bare: list[Cost] = []
        for number in range(args.rounds + 1):
            if args.bare:
                cost = _run([sys.executable, "-c", BARE], {ExitCode.AS_PREDICTED})
                if cost is None:
                    print("failed: bare PySpark", file=sys.stderr)
                    return 1
                if number:
                    bare.append(cost)
            for at, command in enumerate(commands):
                cost = _run([*shlex.split(command), "analyze", str(copies[at])], JUDGED)
                if cost is None:
                    print(f"failed: {command}", file=sys.stderr)
                    return 1
                if number:
                    costs[at].append(cost)
            if len(commands) > 1 and (why := _difference(*(copy / "verdict.json" for copy in copies))):
                print(f"the verdicts differ: {why}", file=sys.stderr)
                return 1
        if args.rounds:
            _print_cold(commands, costs, bare)
        if args.warm:
            _print_warm(copies[0], args.warm)
    return 0


def _difference(one: Path, other: Path) -> str:
    """Return the keys, properties and coverage facts that differ, of those that both commands know."""
    a, b = (msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) for path in (one, other))
    found = [key for key in sorted(a.keys() & b.keys() - {"properties", "coverage"}) if a[key] != b[key]]
    for mine, others in (
        [{row["name"]: row for row in verdict.get("properties", ())} for verdict in (a, b)],
        [verdict.get("coverage", {}) for verdict in (a, b)],
    ):
        found += [name for name in sorted(mine.keys() & others.keys()) if mine[name] != others[name]]
    return ", ".join(found)


def _run(command: Sequence[str], expected: Collection[int]) -> Cost | None:
    """Return what a command cost; None if it ended with another exit code."""
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in expected:
        return None
    return Cost(time.monotonic() - began, used.ru_utime + used.ru_stime)


def _print_cold(commands: Sequence[str], costs: Sequence[Sequence[Cost]], bare: Sequence[Cost]) -> None:
    print("| command | wall s | CPU s |\n|---|---|---|")
    for command, of_command in [*zip(commands, costs, strict=True), *([("bare PySpark", bare)] if bare else [])]:
        _print_row(command, [cost.wall_s for cost in of_command], [cost.cpu_s for cost in of_command])
    if len(costs) > 1:
        _print_ratio("ratio, round by round", costs[0], costs[1])
    if bare:
        _print_ratio("ratio to bare PySpark, round by round", costs[0], bare)


def _print_ratio(title: str, ours: Sequence[Cost], others: Sequence[Cost]) -> None:
    pairs = list(zip(ours, others, strict=True))
    _print_row(title, [a.wall_s / b.wall_s for a, b in pairs], [a.cpu_s / b.cpu_s for a, b in pairs])


def _print_row(title: str, wall: Sequence[float], cpu: Sequence[float]) -> None:
    print(f"| {title} | {spread(wall, 2)} | {spread(cpu, 2)} |")


def _print_warm(record: Path, rounds: int) -> None:
    from harness.cli.analyze_stdin import JudgingSession, judge_together

    wall: list[float] = []
    cpu: list[float] = []
    with contextlib.closing(JudgingSession()) as session:
        for number in range(1, rounds + 1):
            processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
            began, before = time.monotonic(), _cpu_s(processes)
            judge_together(session, [record])
            session.collect_garbage()
            wall.append(time.monotonic() - began)
            cpu.append(_cpu_s([psutil.Process(), *psutil.Process().children(recursive=True)]) - before)
            if number <= FEW or number % EVERY == 0:
                java, python = _mib()
                shown = f"{median(wall):.2f} s, {median(cpu):.2f} CPU s"
                print(f"in one session, {number}: {shown}, Java {java} MiB, Python {python} MiB", flush=True)
                wall, cpu = [], []


def _mib() -> tuple[int, int]:
    """Return the memory of the Java process, and that of this one."""
    children = psutil.Process().children(recursive=True)
    java = sum(one.memory_info().rss for one in children if one.name() == "java")
    return java >> 20, psutil.Process().memory_info().rss >> 20


def _cpu_s(processes: Sequence[psutil.Process]) -> float:
    return float(sum(one.cpu_times().user + one.cpu_times().system for one in processes))


if __name__ == "__main__":
    sys.exit(main())
