"""What bench.reconcile measures, and how its processes run.

Each process is watched and ended here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil

from analysis.record.record import Record
from ebbtide.record.files import RecordFolder
from ebbtide.signals import defer_signals

ENGINES = ("ebbtide", "read once")
THREADS = 2
_SAMPLE_S = 0.05
_END_S = 20.0
"""Spark stops within seconds; what is left after so long is killed."""
_SAID_MAX = 200


class Clock:
    """Measures wall clock and CPU time from here on.

    CPU time is that of this process and of those that it started.
    """

    def __init__(self) -> None:
        self._began, self._used = time.monotonic(), self._cpu_s()

    def end_run(self, found: dict[str, int] | None = None, start_s: float = 0.0) -> EngineRun:
        """What an engine took."""
        took_s, cpu_s = time.monotonic() - self._began, self._cpu_s() - self._used
        return EngineRun(time_s=took_s, cpu_s=cpu_s, start_s=start_s, found=found)

    def _cpu_s(self) -> float:
        me = psutil.Process()
        return sum(sum(one.cpu_times()[:2]) for one in (me, *me.children(recursive=True)))


class EngineRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one engine, with what it found and how long it took.

    `found` counts items by kind; `unknown` says which kinds it cannot find, and why. `cpu_s` is user and system time
    of all its processes. `failure` says in one line why there is no result. `time_s` is then the time until the
    failure.
    """

    time_s: float
    cpu_s: float = 0.0
    start_s: float = 0.0
    found: dict[str, int] | None = None
    unknown: dict[str, str] = {}
    peak_bytes: int = 0
    failure: str | None = None


def run_engine(engine: str, record: Path) -> EngineRun:
    """Run an engine in this child process; a failure is a result."""
    began = time.monotonic()
    try:
        return _reconcile(record) if engine == "ebbtide" else _read_once(record)
    except Exception as error:
        return failed_run(error, time.monotonic() - began)


def failed_run(error: Exception, time_s: float) -> EngineRun:
    """The result of an engine that threw."""
    first = str(error).strip().partition("\n")[0] or type(error).__name__
    return EngineRun(time_s=time_s, failure=first[:_SAID_MAX])


def _reconcile(record: Path) -> EngineRun:
    from analysis.spark.session import session
    from bench.reconciling import reconcile
    from ebbtide.record.manifest import read_manifest

    began = time.monotonic()
    with session() as spark:
        start_s = time.monotonic() - began
        clock = Clock()
        found: dict[str, int] = {}
        reconciled = reconcile(spark, Record(RecordFolder(record), read_manifest(RecordFolder(record))))
        for one in reconciled.anomalies:
            found[one.kind] = found.get(one.kind, 0) + one.count
        measured = clock.end_run(found, start_s)
        return msgspec.structs.replace(measured, unknown=dict(reconciled.unknown))


def _read_once(record: Path) -> EngineRun:
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
    return clock.end_run()


def measure(command: Sequence[str], scratch: Path) -> EngineRun:
    """Run an engine in a process of its own and watch its memory.

    The command prints what it measured, as JSON. All temporary files are in `scratch`. An interrupt ends the
    process and those that it started, and waits for them.
    """
    process = None
    peak = [0]
    done = threading.Event()
    began = time.monotonic()
    try:
        # Its own session: a Ctrl-C at the terminal is for this process, which ends the other in order.
        with defer_signals():
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "TMPDIR": str(scratch)},
                start_new_session=True,
            )
        watcher = threading.Thread(target=_watch, args=(process.pid, peak, done))
        watcher.start()
        said, complained = process.communicate()
    finally:
        done.set()
        if process is not None and process.returncode is None:
            with defer_signals():
                _end(process)
    watcher.join()
    if process.returncode != 0:
        return EngineRun(
            time_s=time.monotonic() - began,
            peak_bytes=peak[0],
            failure=_last_words(process.returncode, complained),
        )
    return msgspec.structs.replace(msgspec.json.decode(said, type=EngineRun), peak_bytes=peak[0])


def _last_words(returncode: int, complained: str) -> str:
    if returncode == -signal.SIGKILL:
        return "killed, as a host does that has no memory left"
    lines = complained.strip().splitlines()
    return lines[-1][:_SAID_MAX] if lines else f"exit code {returncode}"


def _end(process: subprocess.Popen[str]) -> None:
    """Ask the process to end, which takes its JVM with it; kill what does not."""
    others = []
    with contextlib.suppress(psutil.Error):
        others = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        # What it started may hold its pipes open, so their end is not waited for.
        process.wait(_END_S)
    for one in others:
        with contextlib.suppress(psutil.Error):
            one.kill()
    if process.poll() is None:
        process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _watch(pid: int, peak: list[int], done: threading.Event) -> None:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        while not done.wait(_SAMPLE_S):
            total = 0
            try:
                for one in (process, *process.children(recursive=True)):
                    total += one.memory_info().rss
            except psutil.Error:
                continue
            peak[0] = max(peak[0], total)
