"""What a real cluster does with a schedule: everything that needs no fault happens by itself, at once.

A counterexample leaves out what it does not need: followers that could fetch do not, sessions outlive their
brokers. A real cluster does all of it, unless something hinders it. Here a schedule holds only what an operator or
the environment does (`Deed`), and after each deed the model runs until nothing happens by itself any more:
requests arrive, dead or cut brokers are fenced, others unfenced, followers fetch, the HW advances, the ISR changes, the
producer sends one more record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from analysis.spec.model import words as w
from analysis.spec.model.machine import Machine, Move
from analysis.spec.model.words import DATA_BITS, LOG, unpack


class Deed(NamedTuple):
    """One thing that someone does to the cluster. `brokers`: whom, or the replicas that a reassignment asks for.

    Kinds besides the explorer's: `isolate` (cut from everyone), `hold-back` (cut from the other brokers, not from
    the controller), `rejoin` (neither any more), `hold-requests` (the AlterPartition requests of a broker do not
    arrive), `hold-metadata` (it reads nothing more of the metadata log), `release` (the requests arrive).
    """

    kind: str
    brokers: tuple[int, ...] = ()
    value: int = 0


class Event(NamedTuple):
    """What happened by itself: the explorer's kind, and the broker it concerns (0: none)."""

    kind: str
    broker: int = 0


class Phase(NamedTuple):
    """A deed and what came of it; `leader` 0: none. `held`: whose AlterPartition is held then, 0: nobody's."""

    deed: Deed | None
    events: tuple[Event, ...]
    leader: int
    isr: tuple[int, ...]
    committed_anew: bool
    held: int = 0


class Played(NamedTuple):
    """A schedule as one variant plays it. `lost_at`: the first phase that lost promised records, -1: none did.

    `impossible` is the first deed that could not be done, -1: all could.
    """

    phases: tuple[Phase, ...]
    lost_at: int
    elected_from_elr: bool
    impossible: int = -1


_ALONE = ("deliver", "apply-config", "fence", "unfence", "fetch", "advance-hw", "ask-expand", "ask-shrink", "append")
"""What happens by itself, first things first."""


def play(machine: Machine, deeds: Sequence[Deed]) -> Played:
    """Play `deeds` in the initial configuration of `machine`, replica list in ascending order of broker ids."""
    return _Cluster(machine).play(deeds)


class _Cluster:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        first = machine.initial()
        self._ids = list(range(1, len(first) - 1))
        self._state = first
        self._sort(first[0], first[1], first[2:])
        self._order = list(self._ids)
        self._isolated: set[int] = set()
        self._held_back: set[int] = set()
        self._held_requests: set[int] = set()
        self._held_metadata: set[int] = set()
        self._waits = False
        self._lost = False
        self._from_elr = False

    def play(self, deeds: Sequence[Deed]) -> Played:
        phases = [self._settle(None)]
        lost_at = impossible = -1
        for number, deed in enumerate(deeds, 1):
            if not self._do(deed):
                impossible = number - 1
                break
            phases.append(self._settle(deed))
            if self._lost and lost_at < 0:
                lost_at = number
        return Played(tuple(phases), lost_at, self._from_elr, impossible)

    def _do(self, deed: Deed) -> bool:
        if deed.kind == "isolate":
            self._isolated |= set(deed.brokers)
        elif deed.kind == "hold-back":
            self._held_back |= set(deed.brokers)
        elif deed.kind == "rejoin":
            self._isolated -= set(deed.brokers)
            self._held_back -= set(deed.brokers)
        elif deed.kind == "hold-requests":
            self._held_requests |= set(deed.brokers)
        elif deed.kind == "hold-metadata":
            self._held_metadata |= set(deed.brokers)
        elif deed.kind == "release":
            self._held_requests -= set(deed.brokers)
        else:
            if deed.kind == "reassign":
                self._order = [*deed.brokers, *(one for one in self._order if one not in deed.brokers)]
            move = self._find(deed)
            if move is None:
                return False
            self._take(move)
        return True

    def _find(self, deed: Deed) -> Move | None:
        """The move that is this deed, elections by the present order of the replica list."""
        if deed.kind == "reassign":
            at, detail = -1, sum(1 << self._ids.index(broker) for broker in deed.brokers)
        else:
            at, detail = (self._first_alike(deed.brokers[0]) if deed.brokers else -1), deed.value
        return self._choose(move for move in self._moves() if move.action == (deed.kind, at, detail))

    def _settle(self, deed: Deed | None) -> Phase:
        self._waits = deed is not None and deed.kind == "hold-back"
        events: list[Event] = []
        committed = unpack(self._state[1]).committed
        sent = False
        while (found := self._next(sent)) is not None:
            move, event = found
            sent = sent or event.kind == "append"
            self._take(move)
            if event.kind in ("fence", "unfence", "deliver"):
                events.append(event)
        return Phase(
            deed,
            tuple(events),
            next(iter(self._having(w.LEADER)), 0),
            self._having(w.IN_ISR),
            bool(unpack(self._state[1]).committed & ~committed),
            next((one for one in self._having(w.LEADER) if one in self._held_requests and self._having(w.PROPOSED)), 0),
        )

    def _next(self, sent: bool) -> tuple[Move, Event] | None:
        by_kind: dict[str, list[Move]] = {}
        for move in self._moves():
            by_kind.setdefault(move.action.kind, []).append(move)
        for kind in _ALONE:
            if kind == "append" and sent:
                continue
            for broker in self._willing(kind):
                at = self._first_alike(broker) if broker else None
                wanted = [move for move in by_kind.get(kind, ()) if at is None or move.action.broker == at]
                if kind == "ask-shrink":
                    wanted = wanted[-1:]
                chosen = self._choose(iter(wanted))
                if chosen is not None:
                    return chosen, Event(kind, broker)
        return None

    def _willing(self, kind: str) -> tuple[int, ...]:
        """The brokers that this happens to by itself; (0,): it concerns none in particular."""
        connected = [one for one in self._ids if one not in self._isolated]
        leaders = set(self._having(w.LEADER))
        if (kind == "deliver" and leaders & self._held_requests) or (
            kind == "apply-config" and leaders & self._held_metadata
        ):
            return ()
        if kind == "fence":
            return tuple(one for one in sorted(self._ids) if one in self._isolated or not self._control(one) & w.UP)
        if kind == "unfence":
            return tuple(sorted(connected))
        if kind in ("fetch", "ask-expand"):
            if leaders & (self._isolated | self._held_back):
                return ()
            return tuple(sorted(one for one in connected if one not in self._held_back))
        if kind == "ask-shrink":
            # It takes replica.lag.time.max.ms, which only what holds a follower back waits for.
            behind = self._held_back & set(self._having(w.IN_ISR)) if self._waits else set()
            return (0,) if behind and not behind & leaders else ()
        if kind == "append" and leaders & self._isolated:
            return ()
        return (0,)

    def _choose(self, moves: Iterator[Move]) -> Move | None:
        """Of moves that differ in whom they elect, the one that elects the first in the replica list."""
        found = list(moves)
        if not found:
            return None

        def place(move: Move) -> int:
            leader = next((at for at, word in enumerate(move.words) if word >> DATA_BITS & w.LEADER), -1)
            return self._order.index(self._ids[leader]) if leader >= 0 else len(self._order)

        return min(found, key=place)

    def _take(self, move: Move) -> None:
        data, words = move.data, list(move.words)
        leader = next((at for at, word in enumerate(words) if word >> DATA_BITS & w.LEADER), -1)
        if leader >= 0 and self._having(w.LEADER) != (self._ids[leader],):
            self._from_elr |= self._ids[leader] in self._having(w.IN_ELR)
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

    def _first_alike(self, broker: int) -> int:
        """The first position with this broker's word, where the machine lets one act for all; it is moved there."""
        words, at = self._state[2:], self._ids.index(broker)
        first = words.index(words[at])
        self._ids[first], self._ids[at] = self._ids[at], self._ids[first]
        return first

    def _moves(self) -> list[Move]:
        return self._machine.moves(self._state)

    def _control(self, broker: int) -> int:
        return self._state[2 + self._ids.index(broker)] >> DATA_BITS

    def _having(self, flag: int) -> tuple[int, ...]:
        return tuple(sorted(one for one in self._ids if self._control(one) & flag))
