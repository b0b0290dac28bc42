"""Runs side by side, each in a process of its own: a run waits most of its time, so two share two cores well."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from harness.errors import EbbtideError, HarnessError
from harness.runner.display import Display, PlainDisplay
from harness.runner.run import RunRequest, run_scenario
from harness.signals import held_back, unwinding

Key = TypeVar("Key")

_SPAWN = multiprocessing.get_context("spawn")
"""Not a fork: by then Spark's gateway may have threads here."""


def run_side_by_side(
    wanted: Iterable[tuple[Key, RunRequest | EbbtideError]],
    *,
    at_once: int,
    log: Path,
    carry_out: Callable[[RunRequest, Display], Path] = run_scenario,
) -> Generator[tuple[Key, Path | EbbtideError], None, None]:
    """Each key with its record, or why the harness failed, in the order in which they end; `log` is appended to.

    `wanted` is asked for the next only when there is room for it; a request that could not be made comes back as it is.
    Closing the iterator ends what still runs, as SIGTERM and Ctrl-C do, and waits until it has cleaned up.
    """
    running: dict[Connection, tuple[Key, SpawnProcess]] = {}
    with unwinding():
        try:
            for key, request in wanted:
                if isinstance(request, EbbtideError):
                    yield key, request
                    continue
                ours, theirs = _SPAWN.Pipe(duplex=False)
                process = _SPAWN.Process(target=_run, args=(carry_out, request, log, theirs))
                with held_back():
                    process.start()
                    theirs.close()
                    running[ours] = (key, process)
                if len(running) >= at_once:
                    yield from _ended(running, log)
            while running:
                yield from _ended(running, log)
        finally:
            with held_back():
                for _, process in running.values():
                    process.terminate()
                for _, process in running.values():
                    process.join()


def run_in_turn(
    wanted: Iterable[tuple[Key, RunRequest | EbbtideError]], display: Display
) -> Generator[tuple[Key, Path | EbbtideError], None, None]:
    """As `run_side_by_side`, here and one after another."""
    for key, request in wanted:
        try:
            yield key, request if isinstance(request, EbbtideError) else run_scenario(request, display)
        except EbbtideError as error:
            yield key, error


def _ended(running: dict[Connection, tuple[Key, SpawnProcess]], log: Path) -> Iterator[tuple[Key, Path | EbbtideError]]:
    """What has ended, one at least; taken out of `running`."""
    for ready in [one for one in wait(list(running)) if isinstance(one, Connection)]:
        key, process = running[ready]
        try:
            end: Path | EbbtideError = ready.recv()
        except EOFError:
            end = HarnessError("the process of a run ended without a word", where=str(log), next="ebbtide clean")
        # Among the running until it is gone, so that Ctrl-C ends one that answered and hangs.
        process.join()
        del running[ready]
        ready.close()
        yield key, end


def _run(carry_out: Callable[[RunRequest, Display], Path], request: RunRequest, log: Path, answer: Connection) -> None:
    """In the child: a session of its own, so that Ctrl-C reaches only the parent, which then ends it."""
    os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    who = f"{request.scenario.name} on {request.kafka}: "
    with unwinding(), log.open("a") as file, PlainDisplay(Console(file=file), who) as display:
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
