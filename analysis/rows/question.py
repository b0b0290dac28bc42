"""What a kind of anomaly asks of the sums of a run: can it occur at all, and which rows must its rule look at.

Most records have no anomaly. Where every answer is no, no rule is planned, and Java does not start. An answer yes may
be wrong, an answer no is not. The rules decide on the rows that an answer yes names.

A question stands in the module of its kind, or beside it where kinds share it. No other module knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from analysis.rows.batches import Rows
from analysis.rows.groups import Ints
from analysis.rows.runs import RunFiles

if TYPE_CHECKING:
    from analysis.rows.compare import ComparedBlocks
    from analysis.rows.summed import RunSums

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


class KindQuestion:
    """A question about one run; a class a question, and an object a run.

    - `row_types`: the rows that the rules look at if the answer is yes.
    - `whole_tables`: tables of which they look at all rows then.
    - `reads`: by table, the columns that `add` needs. Its batches are read once for all questions, by several threads.
    """

    row_types: ClassVar[tuple[RowType, ...]] = ()
    whole_tables: ClassVar[tuple[str, ...]] = ()
    reads: Mapping[str, tuple[str, ...]] = {}

    def __init__(self, run: RunFiles, folder: Callable[[], Path]) -> None:
        """`folder` makes the folder for sums that memory has no room for."""
        self.run, self.folder = run, folder
        self.lock = Lock()

    def add(self, rows: Rows) -> None:
        """Sum up a batch of a table of `reads`."""

    def needs_all_blocks(self, summed: RunSums, place: Place) -> bool:
        """Whether `Blocks` of a partition must hold every block of its final read."""
        return False

    def look_at(self, summed: RunSums, place: Place, blocks: ComparedBlocks) -> None:
        """Look at some blocks of a partition, whose sources are compared."""

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the answer; everything is summed up by then."""
        raise NotImplementedError
