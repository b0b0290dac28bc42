"""Measures how long a verdict takes on a busy host: `python -m bench.judge_on_busy_host RECORD [--loops N]`.

A judging process starts as it does beside a run, and gets a copy of the record after `--run-s` seconds. That is done on
the host as it is, then beside `--loops` busy loops in one session, then beside loops with a session each. Many kernels
share the cores between sessions first.

Beside the loops, one more loop runs while the record waits. Its share of a core says how long a process at the nice
value of this command would wait for the CPU seconds that judging took. A verdict may take `--max-ratio` times the quiet
time plus that wait. Run the bench as root and as an ordinary user: only root can take back a nice value.

Exit code 1 if a verdict takes longer, has not come after `--give-up-s`, or if a process of the judge is nicer than this
command.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import psutil

from bench.measured_on import measured_on
from ebbtide.judging_process import JudgingProcess
from ebbtide.waiting import WaitExpired, pause, wait_until

BUSY = """
import os, sys
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0:
        break
parent = os.getppid()
while os.getppid() == parent: pass
"""
"""Processes that always want a core. They end with the bench, however it ends."""
LOADS = ("in one session", "in a session each")
"""How the busy loops run."""


class Measured(msgspec.Struct, frozen=True):
    """One judgement, from the hand-over of the record to the verdict.

    `share`: the share of a core that a process of one thread got meanwhile, if there was one.
    """

    wall_s: float
    cpu_s: float
    share: float
    has_verdict: bool
    nices: Sequence[int]

    @property
    def wait_s(self) -> float:
        """How long a process of one thread would wait for a core until it has used so many CPU seconds."""
        return self.cpu_s / self.share - self.cpu_s


def main() -> int:
    """Measure, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path)
    parser.add_argument("--loops", type=int, default=30)
    parser.add_argument("--run-s", type=float, default=20.0)
    parser.add_argument("--give-up-s", type=float, default=240.0)
    parser.add_argument("--max-ratio", type=float, default=3.0)
    parser.add_argument("--only", choices=LOADS, help="only this kind of load")
    args = parser.parse_args()
    print(f"{measured_on()}; user {os.geteuid()}, nice {_nice()}, {args.loops} busy loops\n")
    print("| load | verdict s | target s | CPU s | cores of the judge | cores of one more loop | nice values |")
    print("|---|---|---|---|---|---|---|")
    quiet = measure(args.record, args.run_s, args.give_up_s, beside=0)
    _print_row("none", quiet, "-")
    is_missed = not quiet.has_verdict
    for name in LOADS:
        if args.only in (None, name):
            sessions = 1 if name == LOADS[0] else args.loops
            with _loops(sessions=sessions, each=args.loops // sessions):
                loaded = measure(args.record, args.run_s, args.give_up_s, beside=1)
            target_s = args.max_ratio * quiet.wall_s + loaded.wait_s
            is_missed |= not loaded.has_verdict or loaded.wall_s > target_s or max(loaded.nices) > _nice()
            _print_row(name, loaded, f"{target_s:.0f}")
    return int(is_missed)


def measure(record: Path, run_s: float, give_up_s: float, *, beside: int) -> Measured:
    """Judge a copy of the record, which is there `run_s` after the judging process began to start.

    `beside`: how many loops run meanwhile, to see what share of a core the first one gets.
    """
    with tempfile.TemporaryDirectory(prefix="ebbtide-bench-") as folder, contextlib.ExitStack() as judging:
        copy = Path(shutil.copytree(record, Path(folder, record.name)))
        (copy / "verdict.json").unlink(missing_ok=True)
        judge = JudgingProcess()
        # Not `close`, which would wait for a judge that gets no core.
        judging.callback(judge._end_at_once)
        judge.begin()
        pause(run_s)
        others = judging.enter_context(_loops(sessions=beside, each=1))
        before_s, began = _cpu_s(_processes()), time.monotonic()
        judge.hand_over(copy)
        with contextlib.suppress(WaitExpired):
            wait_until(lambda: not judge.is_judging(copy), awaited="the verdict", timeout_s=give_up_s)
        wall_s = time.monotonic() - began
        ours, has_verdict = _processes(), not judge.is_judging(copy)
        if has_verdict and (failure := judge.judge(copy).failure) is not None:
            raise SystemExit(failure)
        return Measured(
            wall_s=wall_s,
            cpu_s=_cpu_s(ours) - before_s,
            share=max(_cpu_s(others[:1]), 0.01) / wall_s if others else 1.0,
            has_verdict=has_verdict,
            nices=sorted(one.nice() for one in ours),
        )


def _processes() -> list[psutil.Process]:
    """Return the judging process and its Java process."""
    return [one for one in psutil.Process().children(recursive=True) if BUSY not in one.cmdline()]


def _cpu_s(processes: Sequence[psutil.Process]) -> float:
    return float(sum(one.cpu_times().user + one.cpu_times().system for one in processes))


def _nice() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


@contextlib.contextmanager
def _loops(*, sessions: int, each: int) -> Iterator[list[psutil.Process]]:
    """Run so many processes that always want a core in so many sessions; yield the first of each session."""
    with contextlib.ExitStack() as running:
        started = [
            subprocess.Popen([sys.executable, "-S", "-c", BUSY, str(each)], start_new_session=True)
            for _ in range(sessions)
        ]
        for process in started:
            running.callback(process.wait)
            running.callback(os.killpg, process.pid, signal.SIGKILL)
        yield [psutil.Process(process.pid) for process in started]


def _print_row(name: str, measured: Measured, target: str) -> None:
    verdict = f"{measured.wall_s:.1f}" if measured.has_verdict else f"none in {measured.wall_s:.0f}"
    nices = ", ".join(map(str, measured.nices))
    cores = f"{measured.cpu_s / measured.wall_s:.3f} | {measured.share:.3f}"
    print(f"| {name} | {verdict} | {target} | {measured.cpu_s:.1f} | {cores} | {nices} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
