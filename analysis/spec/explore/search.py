"""Searches breadth first: each state once, the shortest counterexample first.

A visited state is kept as its 64-bit hash, as TLC does: two states of one hash count as one. With n
states the chance that this hid anything is about n * n / 2**65; the result states it. States are
kept whole only while they wait to be expanded, as numbers in one array. The path to a state is
found again from the numbers of its moves.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from analysis.spec.model.machine import Machine, Move, canonical
from analysis.spec.model.words import State

BYTES_PER_STATE = 160
"""Memory of a distinct state in bytes, waiting states included.

Measured by bench/explore.py.
"""

Ending = Literal["exhausted", "violated", "steps", "states", "time"]


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a search.

    `path` holds the number of each move from the initial state to the violation. `ending`: every
    reachable state was seen, a violation was found, or which limit ended it. `depth`: all states at
    most so many moves away were expanded. `moves` counts every successor, `states` the distinct
    ones.
    """

    ending: Ending
    states: int
    moves: int
    depth: int
    elapsed_s: float
    path: tuple[int, ...] = ()

    @property
    def states_per_s(self) -> float:
        """Distinct states a second."""
        return self.states / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def omission(self) -> float:
        """An upper bound for the chance that two states had one hash."""
        return self.states * self.states / 2.0**65


Check = Callable[[State], bool]
"""Returns whether a state is allowed, apart from what the moves themselves say."""


MOVE_BITS = 16
"""Bits of the number of a move in a key."""

LIMIT_STRIDE = 255
"""The limits are looked at for states whose place in their level has none of these bits."""


class Paths:
    """How each distinct state was found first, by the states' numbers.

    A key is `number of the state before << MOVE_BITS | number of the move`. States are numbered in the order of their
    keys, so the keys ascend. Number 0 is the initial state.
    """

    def __init__(self) -> None:
        self._keys = array("Q", [0])
        self.append = self._keys.append

    def __len__(self) -> int:
        return len(self._keys)

    def path_of(self, key: int) -> tuple[int, ...]:
        """Return the number of each move from the initial state to the one that `key` leads to."""
        number, path = key >> MOVE_BITS, [key & (1 << MOVE_BITS) - 1]
        while number:
            key = self._keys[number]
            path.append(key & (1 << MOVE_BITS) - 1)
            number = key >> MOVE_BITS
        return tuple(reversed(path))


def states_of(flat: array[int], width: int) -> Iterator[State]:
    """Return the states that `flat` holds one after the other, each of `width` numbers."""
    numbers = iter(flat)
    return zip(*[numbers] * width, strict=True)


def search(
    machine: Machine,
    *,
    check: Check | None = None,
    accept: Callable[[tuple[int, ...]], bool] | None = None,
    max_states: int | None = None,
    max_time_s: float | None = None,
) -> SearchResult:
    """Search `machine` breadth first until a violation, a limit, or the end.

    A violation is a move that loses promised records, or a state that `check` refuses. `accept` may
    turn down a violation by its path; the search then goes on.
    """
    begun = time.monotonic()
    initial_state = machine.initial_state()
    start = canonical(initial_state[0], initial_state[1], initial_state[2:])
    visited = {hash(start)}
    level, width = array("Q", start), len(start)
    first = 0
    paths = Paths()
    depth = moved = 0
    max_steps = machine.bounds.steps
    successors_of, found = machine.successors, paths.append

    def search_result(ending: Ending, path: tuple[int, ...] = ()) -> SearchResult:
        return SearchResult(
            ending=ending,
            states=len(paths),
            moves=moved,
            depth=depth,
            elapsed_s=time.monotonic() - begun,
            path=path,
        )

    while level:
        if max_steps is not None and depth >= max_steps:
            return search_result("steps")
        following = array("Q")
        following_first = len(paths)
        for at, state in enumerate(states_of(level, width)):
            number = (first + at) << MOVE_BITS
            successors = successors_of(state)
            moved += len(successors)
            for which, (_, shared, data, words, lost) in enumerate(successors):
                words.sort()
                after = (shared, data, *words)
                if lost:
                    path = paths.path_of(number | which)
                    if accept is None or accept(path):
                        return search_result("violated", path)
                    continue
                mark = hash(after)
                if mark in visited:
                    continue
                visited.add(mark)
                if check is not None and not check(after):
                    path = paths.path_of(number | which)
                    if accept is None or accept(path):
                        return search_result("violated", path)
                found(number | which)
                following.extend(after)
            if not at & LIMIT_STRIDE:
                if max_states is not None and len(paths) >= max_states:
                    return search_result("states")
                if max_time_s is not None and time.monotonic() - begun > max_time_s:
                    return search_result("time")
        level, first = following, following_first
        depth += 1
    return search_result("exhausted")


def replay(machine: Machine, path: tuple[int, ...]) -> list[Move]:
    """Return the moves of a path that `search` returned."""
    initial_state = machine.initial_state()
    state = canonical(initial_state[0], initial_state[1], initial_state[2:])
    moves: list[Move] = []
    for number in path:
        move = machine.moves(state)[number]
        moves.append(move)
        state = canonical(move.shared, move.data, list(move.words))
    return moves
