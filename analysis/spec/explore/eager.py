"""Plays a schedule as a real cluster would: what needs no fault happens at once.

A counterexample leaves out what it does not need: followers that could fetch do not, sessions
outlive their brokers. A real cluster does all of it, unless something hinders it. Here a schedule
holds only what an operator or the environment does (`Operation`). After each operation the model runs until
nothing more happens by itself. Then requests arrive, dead or cut brokers are fenced, others are
unfenced, followers fetch, the HW advances, the ISR changes, and the producer sends one more record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from analysis.spec.model import words as w
from analysis.spec.model.machine import Machine, Move
from analysis.spec.model.words import DATA_BITS, LOG, unpack


class Operation(NamedTuple):
    """One thing that an operator or the environment does to the cluster.

    `brokers` are the brokers it concerns, or the replicas that a reassignment asks for. Kinds
    besides the explorer's:
    - `isolate`: cut from everyone.
    - `hold-back`: cut from the other brokers, not from the controller.
    - `rejoin`: no longer cut.
    - `hold-requests`: the AlterPartition requests of a broker do not arrive.
    - `hold-metadata`: the broker reads nothing more of the metadata log.
    - `release`: the requests arrive.

    Several brokers go down, get new disks or start together: nothing happens by itself between them.
    """

    kind: str
    brokers: tuple[int, ...] = ()
    value: int = 0


class Event(NamedTuple):
    """What happened by itself: the explorer's kind, and the broker (0: none)."""

    kind: str
    broker: int = 0


class Phase(NamedTuple):
    """An operation and its effects.

    `leader` 0: none. `held` is the broker whose AlterPartition is held then, 0: none.
    """

    operation: Operation | None
    events: tuple[Event, ...]
    leader: int
    isr: tuple[int, ...]
    committed_anew: bool
    held: int = 0


class PlayedSchedule(NamedTuple):
    """A schedule as one variant plays it.

    `lost_at` is the first phase that lost promised records, -1: none did. `impossible` is the first
    operation that could not be done, -1: all could.
    """

    phases: tuple[Phase, ...]
    lost_at: int
    elected_from_elr: bool
    impossible: int = -1


_ALONE = ("deliver", "apply-config", "fence", "unfence", "fetch", "advance-hw", "ask-expand", "ask-shrink", "append")
"""What happens by itself, in order of priority."""


def play(machine: Machine, operations: Sequence[Operation]) -> PlayedSchedule:
    """Play `operations` from the initial configuration of `machine`.

    The replica list is in ascending order of broker ids.
    """
    return _Cluster(machine).play(operations)


class _Cluster:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        first = machine.initial_state()
        self._ids = list(range(1, len(first) - 1))
        self._state = first
        self._sort(first[0], first[1], first[2:])
        # Not as sorted by word above: there the leader, which is the first replica, comes last.
        self._order = sorted(self._ids)
        self._isolated: set[int] = set()
        self._held_back: set[int] = set()
        self._held_requests: set[int] = set()
        self._held_metadata: set[int] = set()
        self._waits = False
        self._lost = False
        self._from_elr = False

    def play(self, operations: Sequence[Operation]) -> PlayedSchedule:
        phases = [self._settle(None)]
        lost_at = impossible = -1
        for number, operation in enumerate(operations, 1):
            if not self._do(operation):
                impossible = number - 1
                break
            phases.append(self._settle(operation))
            if self._lost and lost_at < 0:
                lost_at = number
        return PlayedSchedule(tuple(phases), lost_at, self._from_elr, impossible)

    def _do(self, operation: Operation) -> bool:
        if operation.kind == "isolate":
            self._isolated |= set(operation.brokers)
        elif operation.kind == "hold-back":
            self._held_back |= set(operation.brokers)
        elif operation.kind == "rejoin":
            self._isolated -= set(operation.brokers)
            self._held_back -= set(operation.brokers)
        elif operation.kind == "hold-requests":
            self._held_requests |= set(operation.brokers)
        elif operation.kind == "hold-metadata":
            self._held_metadata |= set(operation.brokers)
        elif operation.kind == "release":
            self._held_requests -= set(operation.brokers)
        else:
            if operation.kind == "reassign":
                self._order = [*operation.brokers, *(one for one in self._order if one not in operation.brokers)]
                each = [operation]
            else:
                each = [operation._replace(brokers=(one,)) for one in operation.brokers] or [operation]
            for one in each:
                move = self._find_move(one)
                if move is None:
                    return False
                self._apply(move)
        return True

    def _find_move(self, operation: Operation) -> Move | None:
        """Return the move that makes this operation.

        Elections go by the present order of the replica list.
        """
        if operation.kind == "reassign":
            at, detail = -1, sum(1 << self._ids.index(broker) for broker in operation.brokers)
        else:
            at, detail = (self._move_to_first_alike(operation.brokers[0]) if operation.brokers else -1), operation.value
        return self._choose(move for move in self._moves() if move.action == (operation.kind, at, detail))

    def _settle(self, operation: Operation | None) -> Phase:
        self._waits = operation is not None and operation.kind == "hold-back"
        events: list[Event] = []
        committed = unpack(self._state[1]).committed
        sent = False
        while (found := self._next_move(sent)) is not None:
            move, event = found
            sent = sent or event.kind == "append"
            self._apply(move)
            if event.kind in ("fence", "unfence", "deliver"):
                events.append(event)
        return Phase(
            operation,
            tuple(events),
            next(iter(self._brokers_with(w.LEADER)), 0),
            self._brokers_with(w.IN_ISR),
            bool(unpack(self._state[1]).committed & ~committed),
            next(
                (
                    one
                    for one in self._brokers_with(w.LEADER)
                    if one in self._held_requests and self._brokers_with(w.PROPOSED)
                ),
                0,
            ),
        )

    def _next_move(self, sent: bool) -> tuple[Move, Event] | None:
        by_kind: dict[str, list[Move]] = {}
        for move in self._moves():
            by_kind.setdefault(move.action.kind, []).append(move)
        for kind in _ALONE:
            if kind == "append" and sent:
                continue
            for broker in self._brokers_ready_for(kind):
                at = self._move_to_first_alike(broker) if broker else None
                wanted = [move for move in by_kind.get(kind, ()) if at is None or move.action.broker == at]
                if kind == "ask-shrink":
                    wanted = wanted[-1:]
                chosen = self._choose(iter(wanted))
                if chosen is not None:
                    return chosen, Event(kind, broker)
        return None

    def _brokers_ready_for(self, kind: str) -> tuple[int, ...]:
        """Return the brokers to which this happens by itself.

        (0,): it concerns no broker in particular.
        """
        connected = [one for one in self._ids if one not in self._isolated]
        leaders = set(self._brokers_with(w.LEADER))
        if (kind == "deliver" and leaders & self._held_requests) or (
            kind == "apply-config" and leaders & self._held_metadata
        ):
            return ()
        if kind == "fence":
            return tuple(
                one for one in sorted(self._ids) if one in self._isolated or not self._control_bits(one) & w.UP
            )
        if kind == "unfence":
            return tuple(sorted(connected))
        if kind in ("fetch", "ask-expand"):
            if leaders & (self._isolated | self._held_back):
                return ()
            return tuple(sorted(one for one in connected if one not in self._held_back))
        if kind == "ask-shrink":
            # It takes replica.lag.time.max.ms, a wait that only occurs where something holds a
            # follower back.
            behind = self._held_back & set(self._brokers_with(w.IN_ISR)) if self._waits else set()
            return (0,) if behind and not behind & leaders else ()
        if kind == "append" and leaders & self._isolated:
            return ()
        return (0,)

    def _choose(self, moves: Iterator[Move]) -> Move | None:
        """Return the move that elects the first broker in the replica list.

        The moves differ in the broker that they elect.
        """
        found = list(moves)
        if not found:
            return None

        def place(move: Move) -> int:
            leader = next((at for at, word in enumerate(move.words) if word >> DATA_BITS & w.LEADER), -1)
            return self._order.index(self._ids[leader]) if leader >= 0 else len(self._order)

        return min(found, key=place)

    def _apply(self, move: Move) -> None:
        data, words = move.data, list(move.words)
        leader = next((at for at, word in enumerate(words) if word >> DATA_BITS & w.LEADER), -1)
        if leader >= 0 and self._brokers_with(w.LEADER) != (self._ids[leader],):
            self._from_elr |= self._ids[leader] in self._brokers_with(w.IN_ELR)
        if move.lost:
            self._lost = True
            have = words[leader] & LOG
            known = unpack(data)
            data = known._replace(committed=known.committed & have, acked=known.acked & have).pack()
        self._sort(move.shared, data, words)

    def _sort(self, shared: int, data: int, words: list[int]) -> None:
        pairs = sorted(zip(words, self._ids, strict=True))
        self._ids = [broker for _, broker in pairs]
        self._state = [shared, data, *(word for word, _ in pairs)]

    def _move_to_first_alike(self, broker: int) -> int:
        """Move the broker to the first position with the same word, and return it.

        The machine lets one broker act for all brokers with equal words.
        """
        words, at = self._state[2:], self._ids.index(broker)
        first = words.index(words[at])
        self._ids[first], self._ids[at] = self._ids[at], self._ids[first]
        return first

    def _moves(self) -> list[Move]:
        return self._machine.moves(self._state)

    def _control_bits(self, broker: int) -> int:
        return self._state[2 + self._ids.index(broker)] >> DATA_BITS

    def _brokers_with(self, flag: int) -> tuple[int, ...]:
        return tuple(sorted(one for one in self._ids if self._control_bits(one) & flag))
