"""Rules out kinds of anomalies before their plans are made.

Most records have no anomaly, and planning often takes longer than reading. So one job first asks the
questions below, and a kind is planned only where an answer leaves it possible. The answers come from
the comparisons that leave out rows of large records (the module narrowing), and are sound for the
same reasons. For such records the job also says where the answers are yes: those are the rows that count.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analysis.reconcile import inversions
from analysis.reconcile.blocks import BLOCK
from analysis.reconcile.narrowing import BLOCKS_MAX
from analysis.reconcile.parts import union

VALUES = "values"
"""Is there a block whose sources differ, or a value that stands twice or never should have been read?

Else no value was lost, vanished, was duplicated, was replaced or was read although it was aborted.
"""
UNSEEN = "unseen"
"""Is there an offset of the final read that an ordinary consumer may have passed over?"""
ORDER = "order"
"""Is there an acked value whose offset is below that of the value before? Else none is out of order."""
REPLICAS = "replicas"
"""Is there a block in which the replicas' committed rows differ? Else no record of theirs does."""
HIGH_WATERMARKS = "high watermarks"
"""Is there a HW below an earlier one? Else none went back."""

EVERYTHING: Set[str] = frozenset((VALUES, UNSEEN, ORDER, REPLICAS, HIGH_WATERMARKS))


_PLACE = {"run": "int", "topic": "string", "partition": "int", "block": "bigint", "values": "bigint"}
_ROWS_MAX = 2 * BLOCKS_MAX
"""Above so many answers, too many blocks of offsets or of values have one."""


class Comparisons(msgspec.Struct, frozen=True, kw_only=True):
    """What the questions look at; None: there is nothing to look at.

    `blocks` is `blocks.compare_blocks`, `suspects` is `narrowing.suspicious`, `inverted` is
    `inversions.inversions`, `replicas` is `replica_blocks.differing`, and `high_watermarks` is
    `hw_regression.suspicious_observations`.
    """

    blocks: DataFrame | None
    suspects: DataFrame | None
    inverted: DataFrame | None
    replicas: DataFrame | None
    high_watermarks: DataFrame | None


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The questions with the answer yes, and the blocks of offsets and of values that make them so."""

    possible: Set[str]
    offsets: Set[tuple[int, str, int, int]]
    values: Set[tuple[int, int]]


def possible_kinds(found: Comparisons) -> Set[str]:
    """Return the questions that have the answer yes for any of the runs."""
    if found.blocks is None:
        return EVERYTHING
    return frozenset(question for (question,) in union(_asked(found, ())).distinct().collect())


def answers(found: Comparisons) -> Answers | None:
    """Return the answers for all runs; None: there are too many blocks to tell."""
    asked = _asked(found, tuple(_PLACE))
    rows = union(asked).distinct().limit(_ROWS_MAX + 1).collect() if asked else []
    possible = frozenset(row.question for row in rows)
    offsets = frozenset((row.run, row.topic, row.partition, row.block) for row in rows if row.block is not None)
    values = frozenset((row.run, row["values"]) for row in rows if row["values"] is not None)
    if len(rows) > _ROWS_MAX or max(len(offsets), len(values)) > BLOCKS_MAX:
        return None
    return Answers(possible=EVERYTHING if found.blocks is None else possible, offsets=offsets, values=values)


def _asked(found: Comparisons, place: Sequence[str]) -> list[DataFrame]:
    """Return rows with a question that has the answer yes, and with those columns of `_PLACE`."""
    asked = []
    if found.blocks is not None:
        of_block = F.array(F.when(~F.col("agree"), F.lit(VALUES)), F.when(F.col("passed_over"), F.lit(UNSEEN)))
        differs = F.col("question") == VALUES
        rows = found.blocks.select(*BLOCK, F.explode(F.array_compact(of_block)).alias("question"))
        asked.append(rows.select("question", *(_of_place(name, BLOCK, differs) for name in place)))
    pairs = found.inverted
    if pairs is not None and place:
        pairs = inversions.blocks_before(pairs)
    for question, some, known in (
        (VALUES, found.suspects, ("run", "values")),
        (ORDER, pairs, BLOCK),
        (REPLICAS, found.replicas, BLOCK),
        (HIGH_WATERMARKS, found.high_watermarks, ()),
    ):
        if some is not None:
            columns = (_of_place(name, known) for name in place)
            asked.append(some.select(F.lit(question).alias("question"), *columns))
    return asked


def _of_place(name: str, known: Sequence[str], where: Column | None = None) -> Column:
    """Return a column of `_PLACE`: null if it is not `known`, or where `where` does not hold."""
    column = F.lit(None).cast(_PLACE[name]) if name not in known else F.col(name)
    return (column if where is None else F.when(where, column)).alias(name)
