"""Searches as `search` does, in several processes, and returns the same result.

The waiting states are in memory that all processes share, in the order of their numbers. The processes go
through a level window by window. In each window:

1. The window is cut into pieces, the last ones small. A process that is free takes the next piece, expands
   it, and keeps what is new to it, in the order of the keys. It then sends the others the hashes of
   these states, and what can happen under control bits that were new.
2. Before a process begins a piece, it takes over what others found in the pieces before that one. What
   they found in later pieces it leaves for later, because its own keys are lower. So a state that several
   processes found stays with the one that has the lowest key, and the others drop it.
3. When no piece is left, each process writes its new states to their places in the next level. Their keys
   number them there. A search in one process finds them in that order.

So processes wait for each other only at the end of a window.

Each process remembers the hashes of all states, because Python's sets are quick. Once the processes together
remember more than `REMEMBERED` hashes, all go to a table that they share, and the sets begin again.

So states, moves and paths do not depend on the number of processes. Where a limit or a violation
ends the search within a window, what a search in one process would not have reached is not counted.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import TypeVar

from analysis.spec.explore.search import LIMIT_STRIDE, MOVE_BITS, Check, Ending, Paths, SearchResult
from analysis.spec.explore.share import Expand, Expanded, Keep, Kept, MovesTo, Place, Request, serve
from analysis.spec.explore.shared_memory import NUMBER, SharedMemory, numbers_in
from analysis.spec.model.machine import Machine, canonical
from ebbtide.errors import HarnessError

WINDOW = 1 << 15
"""States in a window for each process."""

_WINDOW_MIN = 1 << 9
"""States in a window for each process close to `max_states`."""

PIECE = 1 << 12
"""The most states in a piece.

Messages about smaller pieces cost more, and hardly save states that two processes find.
"""

PIECE_MIN = 1 << 6
"""The fewest states in a piece, but for the last one."""

_PIECES_LEFT = 2
"""A piece is at most the rest of the window, divided by this and by the number of processes."""

REMEMBERED = 1 << 23
"""How many hashes all processes together remember; when a window ends with more, all go to the shared table.

The table takes less memory, but a search with it takes a fifth longer.
"""

BYTES_PER_HASH = 80
"""What a remembered hash takes at most."""

_SLOTS_MIN = 1 << 12
"""The fewest slots of that table. In a smaller one, hashes could fill the part of one process by chance."""

_FORK = multiprocessing.get_context("fork")
_END_S = 5.0
"""How long the end of a process whose pipe is closed is awaited."""

T = TypeVar("T")


def search_side_by_side(
    machine: Machine,
    jobs: int,
    *,
    check: Check | None = None,
    accept: Callable[[tuple[int, ...]], bool] | None = None,
    max_states: int | None = None,
    max_time_s: float | None = None,
) -> SearchResult:
    """Search in `jobs` processes; the other arguments and the result are those of `search`.

    The caller must have no other thread, because the processes are forked. Raises HarnessError if
    one of them ends before the search.
    """
    ends: list[Connection] = []
    processes: list[ForkProcess] = []
    memory = SharedMemory(jobs)
    try:
        for at in range(jobs):
            ours, theirs = _FORK.Pipe()
            ends.append(ours)
            # A process closes the ends that it inherits. Otherwise no process would see that the
            # coordinator is gone.
            process = _FORK.Process(target=serve, args=(machine, check, memory, at, jobs, theirs, [*ends]), daemon=True)
            process.start()
            processes.append(process)
            theirs.close()
        return _Coordinator(machine, ends, memory, accept, max_states, max_time_s).search()
    except (EOFError, ConnectionError) as error:
        ended = wait([one.sentinel for one in processes], timeout=_END_S)
        for process in processes:
            if process.sentinel in ended:
                # A process that has closed its files may not have ended yet.
                process.join(_END_S)
        codes = sorted({one.exitcode for one in processes if one.exitcode})
        if codes and codes != [-signal.SIGKILL]:
            raise HarnessError(
                "a process of the search failed", got=f"exit code {codes[0]}; its reason stands above"
            ) from error
        raise HarnessError(
            "a process of the search ended before the search",
            got="the kernel may have killed it because memory ran out",
            next="search again with a lower --max-states",
        ) from error
    finally:
        for end in ends:
            end.close()
        for process in processes:
            process.kill()
            process.join()
        memory.close()


class _Coordinator:
    """Tells the processes what to do, and numbers what they find."""

    def __init__(
        self,
        machine: Machine,
        ends: Sequence[Connection],
        memory: SharedMemory,
        accept: Callable[[tuple[int, ...]], bool] | None,
        max_states: int | None,
        max_time_s: float | None,
    ) -> None:
        self._ends = ends
        self._memory = memory
        self._slots = 0
        # Which file of its pair is in use.
        self._table = self._level = 0
        self._accept = accept
        self._max_states = max_states
        self._max_time_s = max_time_s
        self._max_steps = machine.bounds.steps
        self._begun = time.monotonic()
        self._paths = Paths()
        self._moved = 0
        # How many new states each state of the last window led to; 1 if fewer.
        self._new_each = 1.0
        self._depth = 0
        first = machine.initial_state()
        start = array("Q", canonical(first[0], first[1], first[2:]))
        memory.levels[0].write(memoryview(start).cast("B"), 0)

    def search(self) -> SearchResult:
        first, end = 0, 1
        while first < end:
            if self._max_steps is not None and self._depth >= self._max_steps:
                return self._result("steps", end, self._moved)
            start = first
            while start < end:
                stop = min(start + self._window_size(), end)
                result = self._search_window(range(first, end), start, stop)
                if result is not None:
                    return result
                start = stop
            self._memory.levels[self._level].resize(0)
            self._level = 1 - self._level
            first, end = end, len(self._paths)
            self._depth += 1
        return self._result("exhausted", end, self._moved)

    def _window_size(self) -> int:
        """Return how many states to expand next: fewer close to `max_states`, where more would be for nothing."""
        jobs = len(self._ends)
        if self._max_states is None:
            return WINDOW * jobs
        left = int((self._max_states - len(self._paths)) / self._new_each)
        return min(WINDOW * jobs, max(left, _WINDOW_MIN * jobs))

    def _search_window(self, level: range, start: int, stop: int) -> SearchResult | None:
        """Expand the states of `level` from `start` to before `stop`; return the result if the search ends."""
        known, jobs = len(self._paths), len(self._ends)
        self._memory.turns.put(chain.from_iterable(_pieces(start, stop, jobs)))
        expanded = self._ask([Expand(self._level, level.start, stop)] * jobs, Expanded)
        found = sum(one.found for one in expanded)
        remembered = sum(one.remembered for one in expanded)
        slots = self._slots_for(known + found) if remembered > REMEMBERED else 0
        kept = self._ask([Keep(slots)] * jobs, Kept)
        if slots > self._slots:
            self._memory.hashes[1 - self._table].resize(0)
            self._table, self._slots = 1 - self._table, slots
        keys = self._place(expanded, kept, known - level.stop)
        full = self._full_at(level.start, start, stop, keys)
        bad = {key for one in expanded for key in one.lost} | {key for one in kept for key in one.refused}
        for key in sorted(bad):
            if full is not None and key >> MOVE_BITS > full:
                break
            path = self._paths.path_of(key)
            if self._accept is None or self._accept(path):
                return self._result("violated", known + bisect_left(keys, key), self._moves_to(key >> MOVE_BITS), path)
        if full is not None:
            return self._result("states", known + _count_to(keys, full), self._moves_to(full))
        self._paths.extend(keys)
        self._new_each = max(1.0, len(keys) / (stop - start))
        self._moved += sum(one.moves for one in expanded)
        if self._max_time_s is not None and time.monotonic() - self._begun > self._max_time_s:
            return self._result("time", len(self._paths), self._moved)
        return None

    def _slots_for(self, hashes: int) -> int:
        """Return how many slots the table of hashes needs, and provide them."""
        slots = self._slots or _SLOTS_MIN
        while slots < hashes * 2:
            slots *= 2
        if slots > self._slots:
            self._memory.hashes[self._table].resize(slots * NUMBER)
        return slots

    def _place(self, expanded: list[Expanded], kept: list[Kept], base: int) -> array[int]:
        """Have the states that were kept written into the next level, from place `base` on; return their keys."""
        counts: dict[int, int] = {}
        for taken, those in zip(expanded, kept, strict=True):
            counts.update(zip(taken.pieces, those.counts, strict=True))
        places: dict[int, int] = {}
        at = base
        for piece in sorted(counts):
            places[piece] = at
            at += counts[piece]
        self._ask([Place([places[piece] for piece in one.pieces], base) for one in expanded], bool)
        return numbers_in(self._memory.keys.read((at - base) * NUMBER, 0))

    def _full_at(self, first: int, start: int, stop: int, keys: array[int]) -> int | None:
        """Return the state at which `search` sees that there are `max_states`; None: at none."""
        known = len(self._paths)
        if self._max_states is None or known + len(keys) < self._max_states:
            return None
        seen = (number for number in range(start, stop) if not (number - first) & LIMIT_STRIDE)
        return next((number for number in seen if known + _count_to(keys, number) >= self._max_states), None)

    def _moves_to(self, number: int) -> int:
        """Return how many moves there were when a state of this window had been expanded."""
        return self._moved + sum(self._ask([MovesTo(number)] * len(self._ends), int))

    def _ask(self, requests: Sequence[Request], _answer: type[T]) -> list[T]:
        for end, request in zip(self._ends, requests, strict=True):
            end.send(request)
        return [end.recv() for end in self._ends]

    def _result(self, ending: Ending, states: int, moves: int, path: tuple[int, ...] = ()) -> SearchResult:
        elapsed_s = time.monotonic() - self._begun
        return SearchResult(
            ending=ending, states=states, moves=moves, depth=self._depth, elapsed_s=elapsed_s, path=path
        )


def _pieces(start: int, stop: int, jobs: int) -> Iterator[tuple[int, int]]:
    """Yield where each piece of a window begins and ends.

    The last ones are small, because processes wait for the last one.
    """
    while start < stop:
        left = stop - start
        size = min(PIECE, max(left // (_PIECES_LEFT * jobs), PIECE_MIN), left)
        yield start, start + size
        start += size


def _count_to(keys: array[int], number: int) -> int:
    """Return how many keys lead from states up to `number`."""
    return bisect_left(keys, number + 1 << MOVE_BITS)
