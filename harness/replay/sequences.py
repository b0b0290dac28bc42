"""Sequences of partition states: what of a state is compared, how two sequences are matched, and renaming brokers.

Epochs, offsets and times are left out, and a state that differs from the one before in nothing else is not counted
anew: releases before 3.6 raise the leader epoch when the ISR shrinks (KAFKA-15021).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import permutations

import msgspec

from analysis.judge.history.timeline import Timeline
from ebbtide.record.rows import PartitionState


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What of a partition state is compared; leader -1 is none. `preferred`: the first of the replicas."""

    leader: int
    preferred: int
    replicas: frozenset[int]
    isr: frozenset[int]
    elr: frozenset[int] = frozenset()
    adding: frozenset[int] = frozenset()
    removing: frozenset[int] = frozenset()
    recovering: bool = False

    def renamed(self, naming: Mapping[int, int]) -> Shape:
        """The same state with the brokers by other ids."""

        def named(brokers: frozenset[int]) -> frozenset[int]:
            return frozenset(naming.get(broker, broker) for broker in brokers)

        return Shape(
            leader=naming.get(self.leader, self.leader),
            preferred=naming.get(self.preferred, self.preferred),
            replicas=named(self.replicas),
            isr=named(self.isr),
            elr=named(self.elr),
            adding=named(self.adding),
            removing=named(self.removing),
            recovering=self.recovering,
        )

    def told(self) -> str:
        """`leader 1 ISR [1] ELR [2]`."""
        text = f"leader {self.leader if self.leader >= 0 else 'none'} ISR {sorted(self.isr)}"
        for word in ("elr", "adding", "removing"):
            if brokers := getattr(self, word):
                text += f" {word.upper() if word == 'elr' else word} {sorted(brokers)}"
        return text + (" RECOVERING" if self.recovering else "")


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """A state and when it began."""

    shape: Shape
    at_ns: int


Sequences = dict[str, tuple[Timed, ...]]
"""The states of each partition, `topic-partition`, in order."""


def sequences_of(timeline: Timeline, topics: Sequence[str]) -> Sequences:
    """The states of the partitions of these topics."""
    return {
        f"{topic}-{partition}": tuple(_distinct(states))
        for (topic, partition), states in sorted(timeline.partitions.items())
        if topic in topics
    }


def _distinct(states: Sequence[PartitionState]) -> Iterator[Timed]:
    last: Shape | None = None
    for state in states:
        shape = Shape(
            leader=state.leader,
            preferred=state.replicas[0] if state.replicas else -1,
            replicas=frozenset(state.replicas),
            isr=frozenset(state.isr),
            elr=frozenset(state.elr),
            adding=frozenset(state.adding),
            removing=frozenset(state.removing),
            recovering=state.recovering,
        )
        if shape != last:
            yield Timed(shape=shape, at_ns=state.at_ns)
        last = shape


def renamed(sequences: Sequences, naming: Mapping[int, int]) -> Sequences:
    """The same sequences with the brokers by other ids."""
    return {
        name: tuple(Timed(shape=one.shape.renamed(naming), at_ns=one.at_ns) for one in states)
        for name, states in sequences.items()
    }


def matched(one: Sequences, other: Sequences) -> tuple[int, int]:
    """How many states stand in both in the same order, and how many there are in the longer of the two.

    Both are summed over the partitions: in which order two partitions change is chance.
    """
    common = total = 0
    for name in one.keys() | other.keys():
        left, right = one.get(name, ()), other.get(name, ())
        common += _longest_common([state.shape for state in left], [state.shape for state in right])
        total += max(len(left), len(right))
    return common, total


def _longest_common(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence.

    A row of the usual table is one number: its bits at 0 are where the length grows along `other` (Hyyrö 2004).
    """
    places: dict[Hashable, int] = {}
    for at, right in enumerate(other):
        places[right] = places.get(right, 0) | 1 << at
    all_ones = (1 << len(other)) - 1
    row = all_ones
    for left in one:
        here = row & places.get(left, 0)
        row = (row + here | row - here) & all_ones
    return len(other) - row.bit_count()


def best_naming(
    one: Sequences,
    other: Sequences,
    brokers: Sequence[int],
    planned: Mapping[int, int],
    steps_agreed: Callable[[Mapping[int, int]], int],
) -> dict[int, int]:
    """The renaming of `brokers` under which the most states and steps of `one` and `other` agree.

    `planned` among equals. `steps_agreed`: how many steps do under a renaming; it is asked once for each.
    """
    named = [dict(zip(brokers, order, strict=True)) for order in permutations(brokers)]
    if dict(planned) in named:
        named.insert(0, named.pop(named.index(dict(planned))))
    # States are compared as numbers: of the 720 renamings of six brokers, each renames each different state once.
    numbers = {shape: at for at, shape in enumerate({state.shape for states in other.values() for state in states})}
    kinds = {shape: at for at, shape in enumerate({state.shape for states in one.values() for state in states})}
    both = [
        ([kinds[state.shape] for state in states], [numbers[state.shape] for state in other[name]])
        for name, states in one.items()
        if name in other
    ]
    counted = [(Counter(left), Counter(right)) for left, right in both]
    bounds = []
    for naming in named:
        renamed_to = [numbers.get(shape.renamed(naming), -1) for shape in kinds]
        in_any_order = sum(
            min(times, right[renamed_to[kind]]) for left, right in counted for kind, times in left.items()
        )
        bounds.append((in_any_order, steps_agreed(naming), naming, renamed_to))
    # What is in common in any order is at least what is in common in this order: the rest need not be matched.
    best, most = named[0], (-1, False)
    for in_any_order, steps, naming, renamed_to in sorted(bounds, key=lambda bound: -(bound[0] + bound[1])):
        if in_any_order + steps < most[0]:
            break
        agreed = steps + sum(_longest_common([renamed_to[kind] for kind in left], right) for left, right in both)
        if (agreed, naming == dict(planned)) > most:
            best, most = naming, (agreed, naming == dict(planned))
    return best
