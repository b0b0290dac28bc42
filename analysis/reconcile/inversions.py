"""Finds acked values whose offset is below that of the value that their producer sent before."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analysis.reconcile.blocks import PARTITION, block_of
from analysis.reconcile.tables import RecordTables


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
