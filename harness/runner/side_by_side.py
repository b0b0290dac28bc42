"""Runs several runs at once, each in its own process.

A run mostly waits, so two share two cores well.

It ends a run that takes longer than its limit, and kills a process that does not clean up in time.

Computes how long a run can take.

A run that takes longer hangs, and can be ended.

The limit is the sum of all deadlines of the run's waits, and time for what has no deadline. A run needs a small part
of it, so a run that reaches the limit waits for something that none of its deadlines ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Generic, TypeVar

from rich.console import Console

from cluster.clean import clean
from cluster.host.writeback import TURN_TIMEOUT_S
from ebbtide.command import call_in_process
from ebbtide.daemon.starting import END_TIMEOUT_S
from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.memory import how_ended
from ebbtide.scenario.steps.admin import RequestStep
from ebbtide.scenario.steps.network import FlapStep
from ebbtide.scenario.steps.process import RollingStep, UpgradeStep
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.shown_console import PlainTextConsole
from ebbtide.shown_text import shown_path
from ebbtide.signals import defer_signals, is_interrupt, unwind_on_signals
from harness.runner.display import Display, PlainDisplay
from harness.runner.gates import Gate
from harness.runner.run import RunRequest, run_scenario

_AROUND_S = 900.0
"""Time for class archive, start, topics, clients, final read and record.

Their deadlines take about 6 minutes, doubled for a slow host.
"""
_SETTLES = 3
"""How many waits take up to `settle_s`: for the nodes, the full ISR, and producers with a count."""
_CONTROLLERS_MAX = 3
_ACT_S = 60.0
"""Time for a step besides its own deadlines: a clean stop takes up to 30 s, a probe up to 10 s."""


def limit_s(request: RunRequest) -> float:
    """Return how many seconds after the start of its process a run counts as hanging."""
    scenario = request.scenario
    brokers = scenario.cluster.brokers
    steps_s = sum(_step_s(step, brokers, request.gates.get(index)) for index, step in enumerate(scenario.steps))
    return _AROUND_S + TURN_TIMEOUT_S + _SETTLES * scenario.settle_s + steps_s


def _step_s(step: StepSpec, brokers: int, gate: Gate | None) -> float:
    waits_s = step.deadline_s + (gate.patience_s if gate is not None else 0.0)
    if isinstance(step, RollingStep | UpgradeStep):
        # Each node: down, up and ready, then the whole ISR.
        return waits_s + max(brokers, _CONTROLLERS_MAX) * (_ACT_S + 2 * step.deadline_s)
    if isinstance(step, RequestStep):
        # The answer, then its record.
        return waits_s + 2 * step.deadline_s + _ACT_S
    if isinstance(step, FlapStep):
        return waits_s + step.times * (2 * step.period.seconds + _ACT_S)
    return waits_s + _ACT_S


Key = TypeVar("Key")

_SPAWN = multiprocessing.get_context("spawn")
"""Spawn, not fork: Spark's gateway may have threads in this process by then."""
_KILLED_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunningChild(Generic[Key]):
    """A run that is under way; `until_s` is a time of the monotonic clock."""

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
    on_note: Callable[[Key, str], object] | None = None,
) -> Generator[tuple[Key, Path | EbbtideError], None, None]:
    """Yield each key with its record or failure, in the order in which runs end.

    - The next item of `wanted` is taken only when there is room for it; an error in place of a request is yielded.
    - The runs append their output to `log`. `on_note` gets each line too. The iterator must then be waited for all the
      time, because a run whose lines nobody takes waits.
    - Closing the iterator, SIGTERM and Ctrl-C end the runs under way, and wait until they have cleaned up. A run that
      takes longer than `limit` seconds is ended in the same way.
    """
    running: dict[Connection, _RunningChild[Key]] = {}
    with unwind_on_signals():
        try:
            for key, request in wanted:
                if isinstance(request, EbbtideError):
                    yield key, request
                    continue
                ours, theirs = _SPAWN.Pipe(duplex=False)
                shows = on_note is not None
                call = pickle.dumps((_run_in_child, (carry_out, request, log, shows)))
                process = _SPAWN.Process(target=call_in_process, args=(call, theirs))
                most_s = limit(request)
                with defer_signals():
                    process.start()
                    theirs.close()
                    running[ours] = _RunningChild(
                        key=key,
                        process=process,
                        name=_run_name(request),
                        limit_s=most_s,
                        until_s=time.monotonic() + most_s,
                    )
                if len(running) >= at_once:
                    yield from _take_ended(running, log, on_note)
            while running:
                yield from _take_ended(running, log, on_note)
        finally:
            with defer_signals():
                _end(running, log, on_note)


def run_in_turn(
    wanted: Iterable[tuple[Key, RunRequest | EbbtideError]],
    display: Display,
    carry_out: Callable[[RunRequest, Display], Path] = run_scenario,
) -> Generator[tuple[Key, Path | EbbtideError], None, None]:
    """Do the same as `run_side_by_side` in this process, one run after another."""
    for key, request in wanted:
        try:
            yield key, request if isinstance(request, EbbtideError) else carry_out(request, display)
        except EbbtideError as error:
            yield key, error


def _take_ended(
    running: dict[Connection, _RunningChild[Key]], log: Path, on_note: Callable[[Key, str], object] | None
) -> Iterator[tuple[Key, Path | EbbtideError]]:
    """Wait for at least one run to end, or end one that hangs.

    Removes it from `running` and yields its result.
    """
    next_late = min(running, key=lambda ours: running[ours].until_s)
    answers: dict[Connection, Path | EbbtideError | None] = {}
    """None: the run closed its connection without an answer."""
    while not answers:
        left_s = max(0.0, running[next_late].until_s - time.monotonic())
        ready = [one for one in wait(list(running), timeout=left_s) if isinstance(one, Connection)]
        if not ready:
            break
        for ours in ready:
            try:
                said: str | Path | EbbtideError | None = ours.recv()
            except (EOFError, OSError):
                said = None
            if not isinstance(said, str):
                answers[ours] = said
            elif on_note is not None:
                on_note(running[ours].key, said)
    gone_by_s = time.monotonic() + END_TIMEOUT_S
    for ours in answers or [next_late]:
        one = running[ours]
        end: Path | EbbtideError
        if ours in answers:
            # It stays in `running` until its process is gone, so that Ctrl-C ends one that answered and hangs.
            one.process.join(max(0.0, gone_by_s - time.monotonic()))
            how = how_ended(one.process.exitcode)
            end = answers[ours] or HarnessError(
                "a run ended without a result", where=str(log), got=how, next="ebbtide clean"
            )
        else:
            end = HarnessError(
                f"the run did not end in {one.limit_s:g} s and was ended: {one.name}",
                where=str(log),
                got=f"its last line: {_last_line(one.process, log)}",
                next="ebbtide clean    (if the log says that something could not be undone)",
            )
        with defer_signals():
            _end({ours: one}, log, on_note)
        del running[ours]
        ours.close()
        yield one.key, end


def _last_line(process: SpawnProcess, log: Path) -> str:
    """Return the last line of a run in the log that it shares with others."""
    mine = _line_mark(process.pid)
    said = [line for line in log.read_text(errors="replace").splitlines() if mine in line] if log.is_file() else []
    return said[-1].strip() if said else "nothing"


def _end(
    runs: Mapping[Connection, _RunningChild[Key]], log: Path, on_note: Callable[[Key, str], object] | None
) -> None:
    """End runs, and pass on what they say meanwhile.

    Kill those that do not clean up in time, and undo what these left on the host.
    """
    processes = [one.process for one in runs.values()]
    for process in processes:
        process.terminate()
    for one in runs.values():
        if one.process.is_alive():
            _say(one.key, "ending: it undoes its faults and ends its nodes first", on_note)
    until_s = time.monotonic() + END_TIMEOUT_S
    speaking = dict(runs)
    while (left_s := until_s - time.monotonic()) > 0 and (going := [one for one in processes if one.is_alive()]):
        for ours in wait([*speaking, *(one.sentinel for one in going)], timeout=left_s):
            if isinstance(ours, Connection) and not _pass_on(ours, speaking[ours].key, on_note):
                del speaking[ours]
    hanging = [process for process in processes if process.is_alive()]
    for process in hanging:
        process.kill()
    for process in hanging:
        process.join(_KILLED_WITHIN_S)
    for ours, one in speaking.items():
        while not one.process.is_alive() and ours.poll() and _pass_on(ours, one.key, on_note):
            pass
    if hanging:
        with log.open("a") as file:
            file.writelines(f"{line}\n" for line in _undo_leftovers(hanging))


def _pass_on(ours: Connection, key: Key, on_note: Callable[[Key, str], object] | None) -> bool:
    """Pass on what a run says while it ends; return whether it may say more."""
    try:
        said: str | Path | EbbtideError = ours.recv()
    except Exception:  # the process may have ended in the middle of a message
        return False
    if isinstance(said, Path):
        said = f"recorded in {shown_path(said)}"
    _say(key, said if isinstance(said, str) else f"failed: {said.what}", on_note)
    return True


def _say(key: Key, text: str, on_note: Callable[[Key, str], object] | None) -> None:
    """Note a line about a run that ends, which it must do also if the terminal is gone."""
    if on_note is not None:
        with contextlib.suppress(Exception):
            on_note(key, text)


def _undo_leftovers(killed: Sequence[SpawnProcess]) -> Iterator[str]:
    """Clean up after killed processes by their ledgers, as `ebbtide clean` does.

    Yields each thing that it undid.
    """
    for process in killed:
        state = " and is not gone" if process.is_alive() else ""
        yield f"process {process.pid} did not clean up in {END_TIMEOUT_S:g} s: killed{state}"
    try:
        for one in clean():
            yield from (f"cleaned up after {one.run_id}: {what}" for what in one.undone)
            yield from (f"not cleaned up after {one.run_id}: {what}" for what in one.failed)
    except (OSError, EbbtideError) as error:
        yield f"not cleaned up: {error}; next: ebbtide clean"


def _run_name(request: RunRequest) -> str:
    return f"{request.scenario.name} on {request.kafka}"


def _line_mark(pid: int | None) -> str:
    """Return the mark in each line of a run in the log.

    It distinguishes runs of the same scenario.
    """
    return f" (process {pid}): "


class _DisplayOfChild(PlainDisplay):
    """Prints each line to the log, and sends it to the parent."""

    def __init__(self, console: Console, who: str, parent: Connection) -> None:
        super().__init__(console, who)
        self._parent = parent

    def note(self, text: str) -> None:
        """Print and send a line."""
        super().note(text)
        with contextlib.suppress(OSError):  # the parent is gone, and `_end_with_parent` ends this run
            self._parent.send(text)


def _run_in_child(
    carry_out: Callable[[RunRequest, Display], Path],
    request: RunRequest,
    log: Path,
    shows: bool,
    answer: Connection,
) -> None:
    """Run in the child, in a session of its own.

    Ctrl-C reaches only the parent, which then ends the child.
    """
    os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    who = _run_name(request) + _line_mark(os.getpid())
    with unwind_on_signals(), log.open("a") as file:
        console = PlainTextConsole(file=file)
        display = _DisplayOfChild(console, who, answer) if shows else PlainDisplay(console, who)
        try:
            end: Path | EbbtideError = carry_out(request, display)
        except EbbtideError as error:
            end = error
        except Exception as error:
            if is_interrupt(error):
                raise SystemExit(1) from error
            traceback.print_exc(file=file)
            end = HarnessError(f"a run ended by a bug in ebbtide: {type(error).__name__}: {error}", where=str(log))
        with contextlib.suppress(OSError):
            answer.send(end)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    # To the main thread: if it waits, a signal that another thread takes would not wake it.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
