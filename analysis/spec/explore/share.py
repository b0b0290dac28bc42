"""The part of a search that one of several processes does: `side_by_side` says how they work together."""

from __future__ import annotations

import gc
import signal
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain, compress, pairwise
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NamedTuple

from analysis.spec.explore.search import MOVE_BITS, Check, states_of
from analysis.spec.explore.shared_memory import NUMBER, NumberPipe, SharedMemory, numbers_in
from analysis.spec.model.machine import Machine, canonical

if TYPE_CHECKING:
    from analysis.spec.explore.shared_hashes import SharedHashes


class Expand(NamedTuple):
    """Expand states of a window, as long as a piece of it is left.

    The window ends before number `stop`. Its level begins at number `first`, and is in the file `level`.
    """

    level: int
    first: int
    stop: int


class Keep(NamedTuple):
    """Keep of the new states those that no other process found by a lower key.

    Unless `slots` is 0, all hashes go to the table, which then has so many slots.
    """

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
    """The answer to `Expand`: where the pieces begin that the process expanded, and how many states are new.

    Also how many hashes are in its own memory, keys of moves that lose records, and the number of all moves.
    """

    pieces: list[int]
    found: int
    remembered: int
    lost: list[int]
    moves: int


class _Message(NamedTuple):
    """What a process says to the others about a piece that it has expanded.

    `piece` is the number of its first state. The hashes of the new states begin at place `at` of the owner's file.
    The plans that it made follow.
    """

    piece: int
    owner: int
    at: int
    found: int
    plan_bytes: int


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
        # Hashes of states that any process found, until they go to the table. A set is quicker than the table.
        self._seen = {hash(start)}
        # None until the first hashes go there.
        self._table: SharedHashes | None = None
        self._plans = 0
        # Of the window: the pieces of this process, the moves of each of their states, and what is new in key order.
        self._window = Expand(0, 0, 0)
        self._pieces: list[range] = []
        self._moves: array[int] = array("Q")
        self._marks: array[int] = array("q")
        self._sorted: array[int] = array("Q")
        self._states: array[int] = array("Q")
        self._ends: list[int] = []
        # Pieces that others expanded and this process has not looked at.
        self._messages: list[_Message] = []
        # The first piece of another process that found a state that this one knows too, by the state's hash.
        self._claims: dict[int, int] = {}
        self._written = 0

    def expand(self, request: Expand) -> Expanded:
        """Expand pieces of a window, each time the first one that no process has taken."""
        self._window = request
        self._pieces, self._moves = [], array("Q")
        self._marks, self._sorted, self._states = array("q"), array("Q"), array("Q")
        self._claims, self._written = {}, 0
        lost: list[int] = []
        while piece := self._memory.turns.take(2):
            self._look_at_others(piece[0])
            lost += self._expand_piece(range(*piece))
        taken = [states.start for states in self._pieces]
        return Expanded(taken, len(self._sorted), len(self._seen), lost, sum(self._moves))

    def _expand_piece(self, states: range) -> list[int]:
        """Expand the states of a piece and say what is new; returns keys of moves that lose records."""
        self._pieces.append(states)
        lost_keys: list[int] = []
        known = len(self._marks)
        seen = self._seen
        successors_of, counted = self._machine.successors, self._moves.append
        add, marked, found, extend = seen.add, self._marks.append, self._sorted.append, self._states.extend
        for number, state in zip(states, self._states_at(states), strict=True):
            key = number << MOVE_BITS
            successors = successors_of(state)
            counted(len(successors))
            for which, (_, shared, data, words, lost) in enumerate(successors):
                words.sort()
                after = (shared, data, *words)
                if lost:
                    lost_keys.append(key | which)
                    continue
                mark = hash(after)
                if mark in seen:
                    continue
                add(mark)
                marked(mark)
                found(key | which)
                extend(after)
        if self._table is not None:
            self._table.drop_known(known, self._marks, self._sorted, self._states)
        self._send(states.start, self._marks[known:])
        return lost_keys

    def _send(self, piece: int, marks: array[int]) -> None:
        """Send the other processes what is new in a piece."""
        plans = self._machine.plans_from(self._plans)
        self._plans = self._machine.learn_plans(b"")
        content = marks.tobytes() + plans
        self._memory.found[self._at].write(memoryview(content), self._written)
        message = _Message(piece, self._at, self._written, len(marks), len(plans))
        self._written += len(content)
        for other, inbox in enumerate(self._memory.inboxes):
            if other != self._at:
                inbox.put(message)

    def _states_at(self, numbers: range) -> Iterator[tuple[int, ...]]:
        bytes_each, first = self._width * NUMBER, self._window.first
        level = self._memory.levels[self._window.level]
        content = level.read(len(numbers) * bytes_each, (numbers.start - first) * bytes_each)
        return states_of(numbers_in(content), self._width)

    def _look_at_others(self, before: int) -> None:
        """Take over what other processes found in pieces before `before`.

        What they find in later pieces must not count as seen yet, because this process has lower keys for it.
        What this process knows already, it may have found itself: `_drop` then compares the pieces.
        """
        size = len(_Message._fields)
        numbers = iter(self._memory.inboxes[self._at].take(NumberPipe.CAPACITY // size * size))
        self._messages += [_Message(*each) for each in zip(*[numbers] * size, strict=True)]
        later: list[_Message] = []
        for message in self._messages:
            if message.piece >= before:
                later.append(message)
                continue
            hash_bytes = message.found * NUMBER
            content = self._memory.found[message.owner].read(hash_bytes + message.plan_bytes, message.at)
            marks = numbers_in(content[:hash_bytes], "q").tolist()
            self._plans = self._machine.learn_plans(content[hash_bytes:])
            for mark in self._seen.intersection(marks):
                self._claims[mark] = min(message.piece, self._claims.get(mark, message.piece))
            self._seen.update(marks)
        self._messages = later

    def keep(self, request: Keep) -> Kept:
        """Drop the new states that another process found by a lower key, and check the others."""
        self._look_at_others(self._window.stop)
        self._drop()
        if request.slots:
            self._move_to_table(request.slots)
        ends = [bisect_left(self._sorted, piece.stop << MOVE_BITS) for piece in self._pieces]
        self._ends = [0, *ends]
        refused: list[int] = []
        if self._check is not None:
            check = self._check
            states = states_of(self._states, self._width)
            refused = [key for key, state in zip(self._sorted, states, strict=True) if not check(state)]
        return Kept([stop - start for start, stop in pairwise(self._ends)], refused)

    def _move_to_table(self, slots: int) -> None:
        """Move all hashes to the table. The first time this imports NumPy, which small searches do not need."""
        from analysis.spec.explore.shared_hashes import SharedHashes

        if self._table is None:
            self._table = SharedHashes(self._memory.hashes, self._at, self._jobs)
        self._table.resize(slots)
        self._table.add(self._seen)
        self._seen.clear()

    def _drop(self) -> None:
        """Drop the new states that another process found in an earlier piece."""
        claims = self._claims
        if not claims:
            return
        marks, keys = self._marks, self._sorted
        claimed = compress(range(len(marks)), map(claims.__contains__, marks))
        beaten = [at for at in claimed if claims[marks[at]] << MOVE_BITS < keys[at]]
        runs = list(zip([0, *(at + 1 for at in beaten)], [*beaten, len(self._sorted)], strict=True))
        self._sorted, self._states = _runs_of(self._sorted, runs, 1), _runs_of(self._states, runs, self._width)

    def place(self, request: Place) -> bool:
        """Write what was kept to where it belongs."""
        keys, states = memoryview(self._sorted).cast("B"), memoryview(self._states).cast("B")
        level, bytes_each = self._memory.levels[1 - self._window.level], self._width * NUMBER
        for place, (start, stop) in zip(request.places, pairwise(self._ends), strict=True):
            level.write(states[start * bytes_each : stop * bytes_each], place * bytes_each)
            self._memory.keys.write(keys[start * NUMBER : stop * NUMBER], (place - request.base) * NUMBER)
        return True

    def moves_to(self, number: int) -> int:
        """Return the moves from this process's states of the window up to `number`."""
        numbers = chain.from_iterable(self._pieces)
        return sum(count for at, count in zip(numbers, self._moves, strict=True) if at <= number)


def _runs_of(numbers: array[int], runs: list[tuple[int, int]], width: int) -> array[int]:
    """Return those of `numbers` that are in `runs`, each counted in groups of `width` numbers."""
    content, size = memoryview(numbers).cast("B"), width * NUMBER
    return numbers_in(b"".join([content[start * size : stop * size] for start, stop in runs]))
