"""The part of a search that one of several processes does: `side_by_side` says how they work together."""

from __future__ import annotations

import gc
import signal
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain, compress, pairwise
from multiprocessing.connection import Connection
from typing import NamedTuple

from analysis.spec.explore.search import MOVE_BITS, Check, states_of
from analysis.spec.explore.shared_memory import NUMBER, Hashes, SharedMemory, numbers_in
from analysis.spec.model.machine import Machine, canonical


class Expand(NamedTuple):
    """Expand the states from `start` to before `stop`; their level begins at `first`.

    Each process takes pieces of `piece` states in turn. The level is in the file `level`.
    """

    level: int
    first: int
    start: int
    stop: int
    piece: int


class Keep(NamedTuple):
    """Keep of the new states those that no other process found by a lower key.

    `found` says how many each process found, and `plans` are those that each process made. Unless `slots` is 0, all
    hashes go to the table, which then has so many slots.
    """

    found: list[int]
    plans: list[bytes]
    slots: int


class Place(NamedTuple):
    """Write the states of each piece into the next level, and their keys.

    `places` are the places of each piece's first state in that level. The keys of the window begin at place `base`.
    """

    places: list[int]
    base: int


class MovesTo(NamedTuple):
    """Count the moves from the states of the window up to `number`."""

    number: int


Request = Expand | Keep | Place | MovesTo


class Expanded(NamedTuple):
    """The answer to `Expand`: how many states are new, how many hashes are in this process's own memory.

    Also keys of moves that lose records, the number of all moves, and what the machine learned for all other states
    with the same control bits.
    """

    found: int
    remembered: int
    lost: list[int]
    moves: int
    plans: bytes


class Kept(NamedTuple):
    """The answer to `Keep`: how many states of each piece are kept, and keys of those that the check refused."""

    counts: list[int]
    refused: list[int]


def serve(
    machine: Machine,
    check: Check | None,
    memory: SharedMemory,
    at: int,
    jobs: int,
    requests: Connection,
    inherited: list[Connection],
) -> None:
    """Answer requests until the coordinator closes the connection."""
    # Ctrl-C reaches every process of the terminal; the coordinator then ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in inherited:
        end.close()
    # A search makes no cycles. The collector would look at the states of a window again and again.
    gc.disable()
    share = Share(machine, check, memory, at, jobs)
    while True:
        try:
            request: Request = requests.recv()
        except EOFError:
            return
        match request:
            case Expand():
                requests.send(share.expand(request))
            case Keep():
                requests.send(share.keep(request))
            case Place():
                requests.send(share.place(request))
            case MovesTo():
                requests.send(share.moves_to(request.number))


class Share:
    """The work of process `at` of `jobs`."""

    def __init__(self, machine: Machine, check: Check | None, memory: SharedMemory, at: int, jobs: int) -> None:
        self._machine, self._check, self._memory, self._at, self._jobs = machine, check, memory, at, jobs
        first = machine.initial_state()
        start = canonical(first[0], first[1], first[2:])
        self._width = len(start)
        self._hashes = Hashes(memory.hashes, at, jobs)
        # Hashes of states that any process found, until they go to the table. A table in C is quicker than `Hashes`.
        self._seen = {hash(start) or 1}
        self._level = 0
        self._plans = 0
        # Of the window: the pieces of this process, the moves of each of their states, and what is new in key order.
        self._pieces: list[range] = []
        self._moves: array[int] = array("Q")
        self._keys: dict[int, int] = {}
        self._sorted: array[int] = array("Q")
        self._states: array[int] = array("Q")
        self._ends: list[int] = []

    def expand(self, request: Expand) -> Expanded:
        """Expand this process's pieces of a window."""
        self._level, size = request.level, request.piece
        starts = range(request.start + self._at * size, request.stop, self._jobs * size)
        self._pieces = [range(start, min(start + size, request.stop)) for start in starts]
        lost_keys: list[int] = []
        counts = self._moves = array("Q")
        keys: dict[int, int] = {}
        following = array("Q")
        self._keys, self._states = keys, following
        moves, extend = self._machine.moves, following.extend
        seen = self._seen
        for piece in self._pieces:
            for number, state in zip(piece, self._states_at(piece, request.first), strict=True):
                key = number << MOVE_BITS
                successors = moves(state)
                counts.append(len(successors))
                for which, (_, shared, data, words, lost) in enumerate(successors):
                    words.sort()
                    after = (shared, data, *words)
                    if lost:
                        lost_keys.append(key | which)
                        continue
                    mark = hash(after) or 1
                    if mark not in seen:
                        seen.add(mark)
                        keys[mark] = key | which
                        extend(after)
        self._sorted = array("Q", keys.values())
        self._drop([keys.pop(mark) for mark in self._hashes.known_of(keys)])
        mine = self._memory.found[self._at]
        mine.write(memoryview(array("q", keys)).cast("B"), 0)
        mine.write(memoryview(self._sorted).cast("B"), len(keys) * NUMBER)
        plans = self._machine.plans_from(self._plans)
        return Expanded(len(keys), len(seen), lost_keys, sum(counts), plans)

    def _states_at(self, numbers: range, first: int) -> Iterator[tuple[int, ...]]:
        bytes_each = self._width * NUMBER
        content = self._memory.levels[self._level].read(len(numbers) * bytes_each, (numbers.start - first) * bytes_each)
        return states_of(numbers_in(content), self._width)

    def keep(self, request: Keep) -> Kept:
        """Drop the new states that another process found by a lower key, and check the others."""
        for other, plans in enumerate(request.plans):
            self._plans = self._machine.learn_plans(plans if other != self._at else b"")
        keys = self._keys
        beaten: set[int] = set()
        for other, count in enumerate(request.found):
            if other == self._at:
                continue
            theirs = self._memory.found[other].read(count * NUMBER * 2, 0)
            marks, their_keys = numbers_in(theirs[: count * NUMBER], "q"), numbers_in(theirs[count * NUMBER :])
            self._seen.update(marks)
            common = keys.keys() & marks
            for mark, key in compress(zip(marks, their_keys, strict=True), map(common.__contains__, marks)):
                if key < keys[mark]:
                    beaten.add(keys[mark])
        self._drop(sorted(beaten))
        if request.slots:
            self._hashes.resize(request.slots)
            self._hashes.add(self._seen)
            self._seen.clear()
        ends = [bisect_left(self._sorted, piece.stop << MOVE_BITS) for piece in self._pieces]
        self._ends = [0, *ends]
        refused: list[int] = []
        if self._check is not None:
            check = self._check
            states = states_of(self._states, self._width)
            refused = [key for key, state in zip(self._sorted, states, strict=True) if not check(state)]
        return Kept([stop - start for start, stop in pairwise(self._ends)], refused)

    def _drop(self, beaten: list[int]) -> None:
        """Drop new states by their keys."""
        if not beaten:
            return
        keys, states, width = array("Q"), array("Q"), self._width
        places = [bisect_left(self._sorted, key) for key in beaten]
        for start, stop in zip([0, *(place + 1 for place in places)], [*places, len(self._sorted)], strict=True):
            keys.extend(self._sorted[start:stop])
            states.extend(self._states[start * width : stop * width])
        self._sorted, self._states = keys, states

    def place(self, request: Place) -> bool:
        """Write what was kept to where it belongs."""
        keys, states = memoryview(self._sorted).cast("B"), memoryview(self._states).cast("B")
        level, bytes_each = self._memory.levels[1 - self._level], self._width * NUMBER
        for place, (start, stop) in zip(request.places, pairwise(self._ends), strict=True):
            level.write(states[start * bytes_each : stop * bytes_each], place * bytes_each)
            self._memory.keys.write(keys[start * NUMBER : stop * NUMBER], (place - request.base) * NUMBER)
        return True

    def moves_to(self, number: int) -> int:
        """Return the moves from this process's states of the window up to `number`."""
        numbers = chain.from_iterable(self._pieces)
        return sum(count for at, count in zip(numbers, self._moves, strict=True) if at <= number)
