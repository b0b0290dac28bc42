"""Runs side by side, each in a process of its own: a run waits most of its time, so two share two cores well.

One that hangs is ended: a run that takes longer than it can take, and a process that does not clean up when told to.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Generic, TypeVar

from rich.console import Console

from cluster.clean import clean
from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.signals import defer_signals, unwind_on_signals
from harness.runner.display import Display, PlainDisplay
from harness.runner.limit import limit_s
from harness.runner.run import RunRequest, run_scenario

Key = TypeVar("Key")

_SPAWN = multiprocessing.get_context("spawn")
"""Not a fork: by then Spark's gateway may have threads here."""
_CLEANS_UP_WITHIN_S = 120.0
"""What a run may take to undo its faults, end its nodes and take down its network; then it is killed."""
_KILLED_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running(Generic[Key]):
    """A run that is under way; `until_s` on the monotonic clock."""

    key: Key
    process: SpawnProcess
    name: str
    limit_s: float
    until_s: float


def run_side_by_side(
    wanted: Iterable[tuple[Key, RunRequest | EbbtideError]],
    *,
    at_once: int,
    log: Path,
    carry_out: Callable[[RunRequest, Display], Path] = run_scenario,
    limit: Callable[[RunRequest], float] = limit_s,
) -> Generator[tuple[Key, Path | EbbtideError], None, None]:
    """Each key with its record, or why the harness failed, in the order in which they end; `log` is appended to.

    `wanted` is asked for the next only when there is room for it; a request that could not be made comes back as it is.
    Closing the iterator ends what still runs, as SIGTERM and Ctrl-C do, and waits until it has cleaned up; so does a
    run that takes longer than `limit` seconds.
    """
    running: dict[Connection, _Running[Key]] = {}
    with unwind_on_signals():
        try:
            for key, request in wanted:
                if isinstance(request, EbbtideError):
                    yield key, request
                    continue
                ours, theirs = _SPAWN.Pipe(duplex=False)
                process = _SPAWN.Process(target=_run, args=(carry_out, request, log, theirs))
                most_s = limit(request)
                with defer_signals():
                    process.start()
                    theirs.close()
                    running[ours] = _Running(
                        key=key,
                        process=process,
                        name=_name(request),
                        limit_s=most_s,
                        until_s=time.monotonic() + most_s,
                    )
                if len(running) >= at_once:
                    yield from _ended(running, log)
            while running:
                yield from _ended(running, log)
        finally:
            with defer_signals():
                _end([one.process for one in running.values()], log)


def run_in_turn(
    wanted: Iterable[tuple[Key, RunRequest | EbbtideError]],
    display: Display,
    carry_out: Callable[[RunRequest, Display], Path] = run_scenario,
) -> Generator[tuple[Key, Path | EbbtideError], None, None]:
    """As `run_side_by_side`, here and one after another."""
    for key, request in wanted:
        try:
            yield key, request if isinstance(request, EbbtideError) else carry_out(request, display)
        except EbbtideError as error:
            yield key, error


def _ended(running: dict[Connection, _Running[Key]], log: Path) -> Iterator[tuple[Key, Path | EbbtideError]]:
    """What has ended, or was ended since it hangs, one at least; taken out of `running`."""
    next_late = min(running, key=lambda ours: running[ours].until_s)
    left_s = max(0.0, running[next_late].until_s - time.monotonic())
    ready = [one for one in wait(list(running), timeout=left_s) if isinstance(one, Connection)]
    for ours in ready or [next_late]:
        one = running[ours]
        end: Path | EbbtideError
        if ready:
            try:
                end = ours.recv()
            except EOFError:
                end = HarnessError("the process of a run ended without a word", where=str(log), next="ebbtide clean")
            # Among the running until it is gone, so that Ctrl-C ends one that answered and hangs.
            one.process.join(_CLEANS_UP_WITHIN_S)
        else:
            end = HarnessError(
                f"the run did not end in {one.limit_s:g} s and was ended: {one.name}",
                where=str(log),
                got=f"last said: {_last_said(one.process, log)}",
                next="ebbtide clean    (where the log says that something could not be undone)",
            )
        with defer_signals():
            _end([one.process], log)
        del running[ours]
        ours.close()
        yield one.key, end


def _last_said(process: SpawnProcess, log: Path) -> str:
    """The last line of a run in the log that it shares with others."""
    mine = _mark(process.pid)
    said = [line for line in log.read_text(errors="replace").splitlines() if mine in line] if log.is_file() else []
    return said[-1].strip() if said else "nothing"


def _end(processes: Sequence[SpawnProcess], log: Path) -> None:
    """End what still runs; what does not clean up in time is killed, and what it left on the host is undone here."""
    for process in processes:
        process.terminate()
    until_s = time.monotonic() + _CLEANS_UP_WITHIN_S
    for process in processes:
        process.join(max(0.0, until_s - time.monotonic()))
    hanging = [process for process in processes if process.is_alive()]
    for process in hanging:
        process.kill()
    for process in hanging:
        process.join(_KILLED_WITHIN_S)
    if hanging:
        with log.open("a") as file:
            file.writelines(f"{line}\n" for line in _undo_leftovers(hanging))


def _undo_leftovers(killed: Sequence[SpawnProcess]) -> Iterator[str]:
    """As `ebbtide clean`: by the ledgers of what is dead. Says what was done."""
    for process in killed:
        state = " and is not gone" if process.is_alive() else ""
        yield f"process {process.pid} did not clean up in {_CLEANS_UP_WITHIN_S:g} s: killed{state}"
    try:
        for one in clean():
            yield from (f"cleaned up after {one.run_id}: {what}" for what in one.undone)
            yield from (f"not cleaned up after {one.run_id}: {what}" for what in one.failed)
    except (OSError, EbbtideError) as error:
        yield f"not cleaned up: {error}; next: ebbtide clean"


def _name(request: RunRequest) -> str:
    return f"{request.scenario.name} on {request.kafka}"


def _mark(pid: int | None) -> str:
    """In each line that a run writes into the log; runs of the same scenario are told apart by it."""
    return f" (process {pid}): "


def _run(carry_out: Callable[[RunRequest, Display], Path], request: RunRequest, log: Path, answer: Connection) -> None:
    """In the child: a session of its own, so that Ctrl-C reaches only the parent, which then ends it."""
    os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    who = _name(request) + _mark(os.getpid())
    with unwind_on_signals(), log.open("a") as file, PlainDisplay(Console(file=file), who) as display:
        try:
            end: Path | EbbtideError = carry_out(request, display)
        except EbbtideError as error:
            end = error
        except Exception as error:
            traceback.print_exc(file=file)
            end = HarnessError(f"a run ended by a bug in ebbtide: {type(error).__name__}: {error}", where=str(log))
        answer.send(end)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    # To the main thread: one that waits there would not hear of a signal that another thread took.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
