"""dirty-order: a producer's records are in another order than it sent them.

The rule: a producer's acked values of one partition, by `sequence`; one item a value whose offset
is below that of the value before it.

The data: sends with status acked and an offset; the final read and the last leader's own log.

Why it is sound: a producer sends a partition's records in the order of their sequence, and an
offset given later is higher, unless the log was cut in between. So only a pair counts whose first
value still stands at its offset. Then nothing was cut at or below it, and the second value got a
lower offset although it was sent later. Without idempotence, retries with several requests in
flight may rightly do that; the details say so.

When it cannot tell: without sends or a final read of each partition; for acked records without an
offset; where the first value is not known to stand, because it is lost, hidden, or below the log
start.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analysis.reconcile.blocks import PARTITION, block_of
from analysis.reconcile.duplicate import is_idempotent
from analysis.reconcile.facts import Facts
from analysis.reconcile.items import item
from analysis.reconcile.parts import union
from analysis.reconcile.tables import RecordTables

KIND = "dirty-order"


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    lacking = facts.missing_or_empty("sends", "polls")
    if lacking is not None:
        return lacking
    return facts.without_final_read() or facts.without_offsets()


def inversions(tables: RecordTables) -> DataFrame | None:
    """Return the acked values whose offset is below that of the value before.

    `before` is that value, whether it stands or not.
    """
    if tables.sends is None or tables.polls is None:
        return None
    return decreases(tables.sends.where("status = 'acked' AND offset IS NOT NULL"))


def decreases(acked: DataFrame) -> DataFrame:
    """Return those of some acked sends whose offset is below that of the value before."""
    in_order = Window.partitionBy(*PARTITION, "producer").orderBy("sequence", "offset", "value")
    before = F.lag(F.struct("offset", "value", "sequence")).over(in_order)
    return (
        acked.select(*PARTITION, "producer", "sequence", "offset", "value")
        .withColumn("before", before)
        .where("offset < before.offset")
    )


def blocks_before(inverted: DataFrame) -> DataFrame:
    """Return the blocks of offsets where the first values of the pairs are looked for."""
    return inverted.select(*PARTITION, block_of("before.offset").alias("block"))


def items(
    inverted: DataFrame | None, tables: RecordTables, leaders: DataFrame | None, runs: Sequence[Facts]
) -> DataFrame | None:
    """Return one row for each item; None if there are none.

    `inverted` is `inversions`, `leaders` is `history.leader_logs`.
    """
    if inverted is None or tables.polls is None:
        return None
    final_rows = tables.polls.where("final AND value IS NOT NULL").select(*PARTITION, "offset", "value")
    if leaders is not None:
        of_leaders = leaders.where("value IS NOT NULL").select(*PARTITION, "offset", "value")
        final_rows = union([final_rows, of_leaders])
    pairs = inverted.withColumn("place", F.struct("before.offset", "before.value"))
    found = final_rows.select(*PARTITION, F.struct("offset", "value").alias("place")).join(pairs, [*PARTITION, "place"])
    found = found.dropDuplicates([*PARTITION, "offset", "value"])
    row = item(
        KIND,
        offset=F.col("offset"),
        value=F.col("value"),
        details={
            "producer": F.col("producer"),
            "sequence": F.col("sequence"),
            "before": F.col("before"),
            "idempotent": is_idempotent(runs),
        },
    )
    return found.select(row.alias("item")).select("item.*")
