"""Compares sequences of partition states, up to a renaming of the brokers.

Epochs, offsets and times are left out. A state that differs from the one before only in these is not counted again:
releases before 3.6 raise the leader epoch when the ISR shrinks (KAFKA-15021).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import permutations

import msgspec

from analysis.record.timeline import Timeline
from ebbtide.record.rows import PartitionState


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The compared part of a partition state.

    Leader -1 is none, `preferred` is the first of the replicas.
    """

    leader: int
    preferred: int
    replicas: frozenset[int]
    isr: frozenset[int]
    elr: frozenset[int] = frozenset()
    adding: frozenset[int] = frozenset()
    removing: frozenset[int] = frozenset()
    recovering: bool = False

    def rename_brokers(self, naming: Mapping[int, int]) -> Shape:
        """Return the same state with the broker ids replaced by `naming`."""

        def rename(brokers: frozenset[int]) -> frozenset[int]:
            return frozenset(naming.get(broker, broker) for broker in brokers)

        return Shape(
            leader=naming.get(self.leader, self.leader),
            preferred=naming.get(self.preferred, self.preferred),
            replicas=rename(self.replicas),
            isr=rename(self.isr),
            elr=rename(self.elr),
            adding=rename(self.adding),
            removing=rename(self.removing),
            recovering=self.recovering,
        )

    def describe(self) -> str:
        """Describe the state, such as `leader 1 ISR [1] ELR [2]`."""
        text = f"leader {self.leader if self.leader >= 0 else 'none'} ISR {sorted(self.isr)}"
        for word in ("elr", "adding", "removing"):
            if brokers := getattr(self, word):
                text += f" {word.upper() if word == 'elr' else word} {sorted(brokers)}"
        return text + (" RECOVERING" if self.recovering else "")


class TimedShape(msgspec.Struct, frozen=True, kw_only=True):
    """A partition state and when it began."""

    shape: Shape
    at_ns: int


Sequences = dict[str, tuple[TimedShape, ...]]
"""The states of each partition, `topic-partition`, in order."""


def sequences_of(timeline: Timeline, topics: Sequence[str]) -> Sequences:
    """Return the sequences of states of the partitions of these topics."""
    return {
        f"{topic}-{partition}": tuple(_distinct_shapes(states))
        for (topic, partition), states in sorted(timeline.partitions.items())
        if topic in topics
    }


def _distinct_shapes(states: Sequence[PartitionState]) -> Iterator[TimedShape]:
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
            yield TimedShape(shape=shape, at_ns=state.at_ns)
        last = shape


def rename_brokers(sequences: Sequences, naming: Mapping[int, int]) -> Sequences:
    """Return the same sequences with the broker ids replaced by `naming`."""
    return {
        name: tuple(TimedShape(shape=one.shape.rename_brokers(naming), at_ns=one.at_ns) for one in states)
        for name, states in sequences.items()
    }


def count_common(one: Sequences, other: Sequences) -> tuple[int, int]:
    """Count the states that both have in the same order, and those of the longer.

    Both counts are sums over the partitions: the order in which two partitions change varies from run to run.
    """
    common = total = 0
    for name in one.keys() | other.keys():
        left, right = one.get(name, ()), other.get(name, ())
        common += _longest_common([state.shape for state in left], [state.shape for state in right])
        total += max(len(left), len(right))
    return common, total


def _longest_common(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    A row of the usual table is one integer: its zero bits are where the length grows along `other` (Hyyrö 2004).
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
    """Return the renaming of `brokers` under which `one` and `other` agree most.

    It counts states and steps. Among equals, `planned` wins. `steps_agreed` counts the steps that agree under a
    renaming; it is called once for each renaming.
    """
    named = [dict(zip(brokers, order, strict=True)) for order in permutations(brokers)]
    if dict(planned) in named:
        named.insert(0, named.pop(named.index(dict(planned))))
    # States are compared as numbers, so that each of the 720 renamings of six brokers renames each distinct state once.
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
        renamed_to = [numbers.get(shape.rename_brokers(naming), -1) for shape in kinds]
        in_any_order = sum(
            min(times, right[renamed_to[kind]]) for left, right in counted for kind, times in left.items()
        )
        bounds.append((in_any_order, steps_agreed(naming), naming, renamed_to))
    # The count in any order is an upper bound of the count in order, so the rest need no matching.
    best, most = named[0], (-1, False)
    for in_any_order, steps, naming, renamed_to in sorted(bounds, key=lambda bound: -(bound[0] + bound[1])):
        if in_any_order + steps < most[0]:
            break
        agreed = steps + sum(_longest_common([renamed_to[kind] for kind in left], right) for left, right in both)
        if (agreed, naming == dict(planned)) > most:
            best, most = naming, (agreed, naming == dict(planned))
    return best
