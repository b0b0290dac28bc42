"""What a kind of anomaly asks of the sums of a run: can it occur at all, and which rows must its rule look at.

Most records have no anomaly. Where every answer is no, no rule is planned, and Java does not start. An answer yes may
be wrong, an answer no is not. The rules decide on the rows that an answer yes names.

A question stands in the module of its kind, or beside it where kinds share it. No other module knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import ClassVar, NamedTuple, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from analysis.record.groups import Ints
from analysis.record.record import Record
from analysis.record.scans import BatchReader
from analysis.rows.clients import ClientSums
from analysis.rows.compare import ComparedBlocks, PartitionBlocks, PartitionEnds, places_of
from analysis.rows.facts import Facts

Place: TypeAlias = tuple[str, int]
"""A topic and a partition."""


class RowType(NamedTuple):
    """Rows that NumPy makes of a run, and that rules look at on Spark beside the chosen rows of its tables."""

    name: str
    schema: pa.Schema
    rows_of: Callable[[RunSums], pa.Table]


class KindAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question.

    - `offsets`, `values`: the blocks of offsets by partition, and of values, whose rows the rules must look at.
    - `is_possible`: whether the answer is yes, where these are empty.
    - `why_unknown`: why what the question is for is not known.
    """

    offsets: Mapping[Place, Ints] = {}
    values: Sequence[Ints] = ()
    is_possible: bool = False
    why_unknown: str | None = None

    def __bool__(self) -> bool:
        """Whether the answer is yes."""
        return self.is_possible or any(map(len, self.offsets.values())) or any(map(len, self.values))


class KindQuestion(BatchReader):
    """A question about one run; a class a question, and an object a run.

    - `row_types`: the rows that the rules look at if the answer is yes.
    - `whole_tables`: tables of which they look at all rows then.
    """

    row_types: ClassVar[tuple[RowType, ...]] = ()
    whole_tables: ClassVar[tuple[str, ...]] = ()

    def __init__(self, run: Record, folder: Callable[[], Path]) -> None:
        """`folder` makes the folder for sums that memory has no room for."""
        self.run, self.folder = run, folder
        self.lock = Lock()

    def needs_all_blocks(self, summed: RunSums, place: Place) -> bool:
        """Whether `Blocks` of a partition must hold every block of its final read."""
        return False

    def look_at(self, summed: RunSums, place: Place, blocks: ComparedBlocks) -> None:
        """Look at some blocks of a partition, whose sources are compared."""

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the answer; everything is summed up by then."""
        raise NotImplementedError


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
