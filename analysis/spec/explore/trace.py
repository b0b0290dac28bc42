"""Gives the brokers of a counterexample ids that stay the same at every step.

The search renames brokers at every step. Ids follow the replica assignment, 1 being the preferred
leader. The search leaves the order of the replica list open. A trace has an order under which each
of its elections is what the controller would do; if there is none, there is no trace (`None`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

from analysis.spec.model import words as w
from analysis.spec.model.machine import Machine, Move
from analysis.spec.model.transition import Action
from analysis.spec.model.words import DATA_BITS, SharedState


class Step(NamedTuple):
    """One action: its broker (0: none), its detail, and the state after it.

    The detail is a number or broker ids.
    """

    kind: str
    broker: int
    detail: int
    brokers: tuple[int, ...]
    shared: SharedState
    data: int
    words: dict[int, int]
    lost: int


class Trace(NamedTuple):
    """The initial words by broker id, and the steps.

    `orders[n]` is the replica order that the target of step n has.
    """

    initial: dict[int, int]
    shared: SharedState
    steps: tuple[Step, ...]
    orders: dict[int, tuple[int, ...]]


_MASKS = frozenset({"ask-shrink", "reassign", "recover"})
"""Actions whose detail is a mask of positions."""


def trace(machine: Machine, path: Sequence[int]) -> Trace | None:
    """Return the trace of a path that `search` returned.

    None: no order of the replica lists fits its elections.
    """
    first = machine.initial_state()
    ids = list(range(1, machine.bounds.size + 1))
    words, ids = _sort_order(first[2:], ids)
    state = [first[0], first[1], *words]
    initial = dict(zip(ids, words, strict=True))
    steps: list[Step] = []
    # Which broker must come before which, since the replica list was last set; the initial leader
    # comes first.
    before: set[tuple[int, int]] = {(1, other) for other in range(2, machine.bounds.rf + 1)}
    given, lists = -1, {-1: (tuple(range(1, machine.bounds.rf + 1)), before)}
    for number, chosen in enumerate(path):
        moves = machine.moves(state)
        move = moves[chosen]
        if move.action.kind == "reassign":
            given = number
            replicas = [
                ids[at]
                for at in range(len(ids))
                if move.words[at] >> DATA_BITS & w.REPLICA or move.action.detail >> at & 1
            ]
            lists[given] = (tuple(sorted(replicas)), set())
        lists[given][1].update(_order_constraints(move, moves, ids))
        steps.append(_step(machine, move, ids))
        sorted_words, ids = _sort_order(move.words, ids)
        state = [move.shared, move.data, *sorted_words]
    orders = {number: _order(replicas, pairs) for number, (replicas, pairs) in lists.items()}
    if any(order is None for order in orders.values()):
        return None
    known = {number: order for number, order in orders.items() if order is not None}
    return _with_ascending_ids(Trace(initial, machine.shared_of(first), tuple(steps), known))


def _order_constraints(move: Move, moves: list[Move], ids: list[int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of brokers whose first must precede the second in the replica list.

    Only then would this move's election choose its leader.
    """
    elected = _leader(move.words)
    if elected < 0:
        return
    for other in moves:
        rival = _leader(other.words)
        if other.action == move.action and rival >= 0 and rival != elected:
            yield ids[elected], ids[rival]
    if move.action.kind == "elect-preferred":
        for at, word in enumerate(move.words):
            if at != elected and word >> DATA_BITS & w.REPLICA:
                yield ids[elected], ids[at]


def _leader(words: list[int]) -> int:
    return next((at for at, word in enumerate(words) if word >> DATA_BITS & w.LEADER), -1)


def _order(replicas: tuple[int, ...], pairs: set[tuple[int, int]]) -> tuple[int, ...] | None:
    for order in permutations(replicas):
        place = {broker: at for at, broker in enumerate(order)}
        if all(place.get(one, -1) < place.get(other, len(order)) for one, other in pairs):
            return order
    return None


def _sort_order(words: list[int], ids: list[int]) -> tuple[list[int], list[int]]:
    pairs = sorted(zip(words, ids, strict=True))
    return [word for word, _ in pairs], [broker for _, broker in pairs]


def _step(machine: Machine, move: Move, ids: list[int]) -> Step:
    action: Action = move.action
    masked = action.kind in _MASKS
    return Step(
        kind=action.kind,
        broker=ids[action.broker] if action.broker >= 0 else 0,
        detail=0 if masked else action.detail,
        brokers=tuple(sorted(ids[at] for at in range(len(ids)) if action.detail >> at & 1)) if masked else (),
        shared=machine.shared_of([move.shared]),
        data=move.data,
        words=dict(zip(ids, move.words, strict=True)),
        lost=move.lost,
    )


def _with_ascending_ids(found: Trace) -> Trace:
    """Return the trace with the initial replica list in ascending order of ids."""
    order = found.orders[-1]
    new = {old: at for at, old in enumerate(order, 1)}

    def name(broker: int) -> int:
        return new.get(broker, broker)

    def words(old: dict[int, int]) -> dict[int, int]:
        return dict(sorted((name(broker), word) for broker, word in old.items()))

    steps = tuple(
        step._replace(
            broker=name(step.broker),
            brokers=tuple(sorted(name(broker) for broker in step.brokers)),
            words=words(step.words),
        )
        for step in found.steps
    )
    orders = {number: tuple(name(broker) for broker in one) for number, one in found.orders.items()}
    return Trace(words(found.initial), found.shared, steps, orders)
