"""`ebbtide` with made-up clusters and judgements, so that its output on a terminal can be seen within a second.

Everything of the command is real but for what it would run: runs show states and notes, and leave a copy of a real
record; judging reports its stages, and gives the verdict that the record has.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import sys
import termios
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from checkout import DATA
from terminal import ENVIRONMENT, LEFT_OUT

from analysis.judging import many_records
from analysis.spark import java_start
from analysis.spark import session as spark_session
from cluster import doctor
from cluster.jars import releases
from ebbtide import judging_process
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest, write_manifest
from ebbtide.record.outcomes import AnalyzedRecord
from ebbtide.record.rows import PartitionState
from ebbtide.record.verdict import Verdict, read_verdict, write_verdict
from harness.cli import analyze_stdin, main
from harness.runner import launch, run, side_by_side
from harness.runner.display import RunState

TICK_S, TICKS = 0.03, 20
PHASES = ("start cluster", "steps", "settle")
NODES = ("broker-1", "broker-2", "broker-3", "controller-100")
STAGES = ("reading", "summing up", "starting Spark", "choosing rows", "comparing records", "storing", "judging")
LONG_NOTE = "a note that is longer than a narrow terminal, which is folded between its words and never inside of one"


class Clock:
    """Counts the ticks of this command; with `holds` the eighth one lasts until the command is interrupted."""

    ticks = 0
    holds = False


def tick() -> None:
    Clock.ticks += 1
    threading.Event().wait(60 if Clock.holds and Clock.ticks == 8 else TICK_S)


def state_at(tick_: int) -> RunState:
    row = PartitionState(
        metadata_offset=9,
        at_ns=None,
        topic="t",
        partition=0,
        leader=3,
        leader_epoch=2,
        partition_epoch=4,
        isr=[3],
        elr=[2],
        replicas=[1, 2, 3],
    )
    return RunState(
        title="a run",
        phase=PHASES[tick_ * len(PHASES) // TICKS],
        nodes={name: "running, unfenced" if name.startswith("broker") else "running" for name in NODES},
        brokers={"broker-1": 1, "broker-2": 2, "broker-3": 3},
        partitions=(row,),
        high_watermarks={"t-0": 100 * tick_},
        sends={"sent": 101 * tick_, "acked": 100 * tick_, "failed": 0, "unknown": 0},
    )


def act(display: Any) -> None:
    """Show what a run shows."""
    for at in range(TICKS):
        display.state(state_at(at))
        if at % 5 == 0:
            display.note(f"note {at} of this run")
        if at == 7:
            display.note(LONG_NOTE)
        if at == 11:
            sys.stdout.write("\x1b[2Jfrom outside\n")
            sys.stderr.write("from outside on stderr\n")
        tick()


def make_record(runs: Path, kafka: str) -> Path:
    """Return a copy of a real record, judged, as a run leaves it."""
    name = f"last-replica-standing-{kafka if kafka == '3.9.1' else '4.3.1'}"
    record = runs.absolute() / f"20261128T120000-{name}-{len(list(runs.glob('*'))) if runs.is_dir() else 0:04x}"
    shutil.copytree(DATA / "runs" / name, record)
    write_manifest(
        RecordFolder(record), msgspec.structs.replace(read_manifest(RecordFolder(record)), run_id=record.name)
    )
    verdict = read_verdict(RecordFolder(record))
    assert verdict is not None
    write_verdict(RecordFolder(record), msgspec.structs.replace(verdict, run_id=record.name))
    return record


def run_scenario(request: Any, display: Any, _drive: object = None, **_: object) -> Path:
    act(display)
    record = make_record(request.runs, request.kafka)
    display.note(f"recorded in runs/{record.name}")
    return record


def run_side_by_side(wanted: Iterable[tuple[Any, Any]], *, on_note: Any = None, **_: object) -> Iterator[Any]:
    requests = [*wanted]
    for at in range(10):
        for key, _request in requests:
            if on_note is not None:
                on_note(key, f"note {at} of this run")
        tick()
    for key, request in requests:
        yield key, make_record(request.runs, request.kafka)


class JudgingProcess:
    """A judging process that finds the verdicts that records have."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> JudgingProcess:
        return self

    def __exit__(self, *_: object) -> None: ...

    def begin(self) -> None: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...

    def hand_over(self, record: Path) -> None: ...

    def is_running(self) -> bool:
        return True

    def is_judging(self, _record: Path) -> bool:
        return False

    def judge(self, record: Path, *_: object, **__: object) -> AnalyzedRecord:
        for _ in range(TICKS):
            tick()
        return AnalyzedRecord(record=str(record), outcome="as-predicted", exit_code=0)


def judge_many(
    records: Sequence[Path], _spark: object, stage: Any = None, *_: object
) -> Iterator[tuple[Path, Verdict]]:
    for record in records:
        for doing in STAGES:
            if stage is not None:
                stage(doing)
            tick()
        if record is records[0]:
            sys.stderr.write("\x1b[2Jfrom outside\n")
        verdict = read_verdict(RecordFolder(record))
        assert verdict is not None
        yield record, verdict


def patch() -> None:
    """Put the stand-ins into their places."""
    runs = Path("runs")

    def prepare(*_: object) -> Any:
        return SimpleNamespace(
            power_loss_method="fs-shutdown",
            runtimes={},
            runs=runs,
            request=lambda scenario, kafka, seed: SimpleNamespace(kafka=kafka, seed=seed, scenario=scenario, runs=runs),
        )

    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: SimpleNamespace(getActiveStageIds=list)))
    os.geteuid = lambda: 0  # type: ignore[assignment]
    os.sched_getaffinity = lambda _: {0, 1}  # type: ignore[assignment]
    launch.check = lambda *_: None  # type: ignore[assignment]
    launch.prepare = prepare  # type: ignore[assignment]
    run.run_scenario = run_scenario  # type: ignore[assignment]
    side_by_side.run_side_by_side = run_side_by_side  # type: ignore[assignment]
    doctor.require_memory = lambda *_: None  # type: ignore[assignment]
    judging_process.JudgingProcess = JudgingProcess  # type: ignore[misc, assignment]
    analyze_stdin.JudgingSession.started = lambda *_: spark  # type: ignore[method-assign, assignment, return-value]
    java_start.is_first_session = lambda *_: False  # type: ignore[assignment]
    java_start.early_start = lambda *_, **__: contextlib.nullcontext()  # type: ignore[assignment]
    spark_session.session = lambda *_, **__: contextlib.nullcontext(spark)  # type: ignore[assignment]
    many_records.judge_many = judge_many  # type: ignore[assignment]
    releases.ensure = lambda *_: []  # type: ignore[assignment]


def serve(requests: socket.socket) -> None:
    """Run each command that comes in a child, and answer with its exit code."""
    while True:
        request, terminals, _, _ = socket.recv_fds(requests, 1 << 16, 1)
        if not request:
            return
        Clock.holds, folder, *words = json.loads(request)
        child = os.fork()
        if child == 0:
            requests.close()
            os._exit(run_command(words, folder, terminals[0]))
        os.close(terminals[0])
        requests.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def run_command(words: Sequence[str], folder: str, terminal: int) -> int:
    """Run a command as a shell does, on a terminal of its own."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(terminal, number)
    os.close(terminal)
    os.chdir(folder)
    os.environ.update(ENVIRONMENT)
    for name in LEFT_OUT:
        os.environ.pop(name, None)
    with (
        open(1, "w", encoding="utf-8", closefd=False) as stdout,
        open(2, "w", encoding="utf-8", closefd=False) as stderr,
    ):
        sys.stdout = sys.__stdout__ = stdout  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = stderr  # type: ignore[misc]
        try:
            return int(main.main(words))
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()


if __name__ == "__main__":
    patch()
    serve(socket.socket(fileno=int(sys.argv[1])))
