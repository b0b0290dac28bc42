"""Holds what NumPy summed up of one run, for the questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import pyarrow as pa

from analysis.rows.clients import ClientSums
from analysis.rows.compare import ComparedBlocks, PartitionBlocks, PartitionEnds, places_of
from analysis.rows.facts import Facts
from analysis.rows.question import KindQuestion, Place

Q = TypeVar("Q", bound=KindQuestion)


class RunSums:
    """The sums of a run.

    - `facts`, `clients`: the facts, and the sums of sends and polls.
    - `commits`, `copies`: all rows of these tables; None if there are none.
    """

    def __init__(
        self,
        facts: Facts,
        clients: ClientSums,
        commits: pa.Table | None,
        copies: pa.Table | None,
        asked: Sequence[KindQuestion],
    ) -> None:
        self.facts, self.clients, self.commits, self.copies = facts, clients, commits, copies
        self.asked = tuple(asked)

    def of(self, question: type[Q]) -> Q:
        """Return one of the questions."""
        return next(one for one in self.asked if isinstance(one, question))

    @cached_property
    def ends(self) -> Mapping[Place, PartitionEnds]:
        """What is known of each partition."""
        return places_of(self.facts)

    @cached_property
    def partitions(self) -> Mapping[Place, PartitionBlocks]:
        """The compared blocks of each partition with sends or polls."""
        places = sorted((str(topic), int(str(number))) for topic, number in self.clients.blocks.places())
        return {place: self._compare(place) for place in places}

    @cached_property
    def reached(self) -> Mapping[int, int]:
        """The last offset that stands of each source, by blocks that agree."""
        found: dict[int, int] = {}
        for one in self.partitions.values():
            found |= one.reached
        return found

    def _compare(self, place: Place) -> PartitionBlocks:
        def look(blocks: ComparedBlocks) -> None:
            for question in self.asked:
                question.look_at(self, place, blocks)

        keeps_all = any(question.needs_all_blocks(self, place) for question in self.asked)
        return PartitionBlocks(self.clients, *place, self.ends[place], look, keeps_all=keeps_all)
