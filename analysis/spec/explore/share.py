"""The part of a search that one of several processes does: `side_by_side` says how they work together.

A process owns the states whose hash names it. It holds their hashes, and those of them that wait to
be expanded.
"""

from __future__ import annotations

import gc
import signal
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import chain, compress, count, islice
from multiprocessing.connection import Connection
from typing import NamedTuple

from analysis.spec.explore.search import MOVE_BITS, Check, states_of
from analysis.spec.model.machine import Machine, canonical
from analysis.spec.model.words import State

_SENT_MAX = 1 << 19
"""A process remembers so many hashes of states that it sent, and does not send these states again."""

_HASHES = 1 << 64
"""How many hashes there are. They are signed."""

Batch = tuple[bytes, bytes]
"""Keys in ascending order, and the state of each."""


class Expand(NamedTuple):
    """Expand the waiting states before the number `stop`."""

    stop: int
    is_new_level: bool


class Incoming(NamedTuple):
    """Keep what other processes found of this process's states."""

    batches: list[Batch]


class Numbering(NamedTuple):
    """The sorted keys of all new states of the window; the first has the number `first`."""

    first: int
    keys: bytes


class MovesTo(NamedTuple):
    """Count the moves from the states of the window up to `number`."""

    number: int


Request = Expand | Incoming | Numbering | MovesTo


class Expanded(NamedTuple):
    """The answer to `Expand`: a batch for each process, keys of moves that lose records, all moves."""

    outgoing: list[Batch]
    lost: list[int]
    moves: int


class Kept(NamedTuple):
    """The answer to `Incoming`: keys of the new states in ascending order, and of those refused."""

    keys: bytes
    refused: list[int]


def serve(
    machine: Machine, check: Check | None, at: int, jobs: int, requests: Connection, inherited: list[Connection]
) -> None:
    """Answer requests until the coordinator closes the connection."""
    # Ctrl-C reaches every process of the terminal; the coordinator then ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in inherited:
        end.close()
    # A search makes no cycles. The collector would look at the states of a window again and again.
    gc.disable()
    share = Share(machine, check, at, jobs)
    while True:
        try:
            request: Request = requests.recv()
        except EOFError:
            return
        match request:
            case Expand():
                requests.send(share.expand(request))
            case Incoming():
                requests.send(share.keep(request))
            case MovesTo():
                requests.send(share.moves_to(request.number))
            case Numbering():
                share.number(request)


class Share:
    """The states of process `at` of `jobs`."""

    def __init__(self, machine: Machine, check: Check | None, at: int, jobs: int) -> None:
        self._machine, self._check, self._at, self._jobs = machine, check, at, jobs
        first = machine.initial_state()
        start = canonical(first[0], first[1], first[2:])
        self._width = len(start)
        self._visited: set[int] = set()
        self._sent: set[int] = set()
        self._level: Iterator[State] = iter(())
        self._numbers: array[int] = array("Q")
        self._expanded = 0
        self._following, self._following_numbers = array("Q"), array("Q")
        self._moves: array[int] = array("Q")
        self._window = slice(0, 0)
        # What is new in this window: the state of each key, the key of each hash, and the keys sorted.
        self._states: dict[int, State] = {}
        self._keys: dict[int, int] = {}
        self._sorted: list[int] = []
        # Each process owns a range of hashes, from its bound to the next one. The low bits would not do as well: a
        # set finds its entries by them.
        self._bounds = [owner * _HASHES // jobs - _HASHES // 2 for owner in range(jobs + 1)]
        mark = hash(start)
        if self._bounds[at] <= mark < self._bounds[at + 1]:
            self._visited.add(mark)
            self._following.extend(start)
            self._following_numbers.append(0)

    def expand(self, request: Expand) -> Expanded:
        """Expand the next waiting states."""
        if request.is_new_level:
            self._level, self._numbers = states_of(self._following, self._width), self._following_numbers
            self._following, self._following_numbers, self._expanded = array("Q"), array("Q"), 0
        if len(self._sent) > _SENT_MAX:
            self._sent.clear()
        stop = bisect_left(self._numbers, request.stop, self._expanded)
        self._window, self._expanded = slice(self._expanded, stop), stop
        numbers = self._numbers[self._window]
        out_keys = [array("Q") for _ in range(self._jobs)]
        out_states = [array("Q") for _ in range(self._jobs)]
        lost_keys: list[int] = []
        counts = self._moves = array("Q")
        moves, visited, sent, bounds = self._machine.moves, self._visited, self._sent, self._bounds
        low, high = bounds[self._at], bounds[self._at + 1]
        states, keys = self._states, self._keys = {}, {}
        for number, state in zip(numbers, islice(self._level, len(numbers)), strict=True):
            key = number << MOVE_BITS
            successors = moves(state)
            counts.append(len(successors))
            for which, (_, shared, data, words, lost) in enumerate(successors):
                words.sort()
                after = (shared, data, *words)
                if lost:
                    lost_keys.append(key | which)
                    continue
                mark = hash(after)
                if low <= mark < high:
                    if mark not in visited:
                        visited.add(mark)
                        keys[mark] = own = key | which
                        states[own] = after
                elif mark not in sent:
                    sent.add(mark)
                    owner = bisect_right(bounds, mark) - 1
                    out_keys[owner].append(key | which)
                    out_states[owner].extend(after)
        outgoing = [(one.tobytes(), other.tobytes()) for one, other in zip(out_keys, out_states, strict=True)]
        return Expanded(outgoing, lost_keys, sum(counts))

    def keep(self, request: Incoming) -> Kept:
        """Keep each new state with its lowest key, and check all new states of this window."""
        visited, keys, states = self._visited, self._keys, self._states
        for batch_keys, batch_states in request.batches:
            for key, state in zip(_array(batch_keys), states_of(_array(batch_states), self._width), strict=True):
                mark = hash(state)
                if mark not in visited:
                    visited.add(mark)
                    keys[mark] = key
                    states[key] = state
                elif mark in keys and key < keys[mark]:
                    states[key] = states.pop(keys[mark])
                    keys[mark] = key
        self._sorted = sorted(states)
        ordered = [states[key] for key in self._sorted]
        self._following.extend(chain.from_iterable(ordered))
        refused: list[int] = []
        if self._check is not None:
            check = self._check
            refused = [key for key, state in zip(self._sorted, ordered, strict=True) if not check(state)]
        return Kept(array("Q", self._sorted).tobytes(), refused)

    def number(self, request: Numbering) -> None:
        """Number the new states of this window."""
        mine = map(self._states.__contains__, _array(request.keys))
        self._following_numbers.extend(compress(count(request.first), mine))

    def moves_to(self, number: int) -> int:
        """Return the moves from this process's states of the window up to `number`."""
        numbers = self._numbers[self._window]
        return sum(self._moves[: bisect_left(numbers, number + 1)])


def _array(content: bytes) -> array[int]:
    numbers = array("Q")
    numbers.frombytes(content)
    return numbers
