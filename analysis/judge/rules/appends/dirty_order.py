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

from analysis.judge.rules.anomaly import Anomaly
from analysis.judge.rules.appends.send_order import INVERSIONS, Disordered
from analysis.reconcile.work import Work, items_of
from analysis.rows.facts import Facts
from analysis.spark.columns import PARTITION, is_idempotent
from analysis.spark.parts import union
from analysis.spark.sql import DataFrame, F


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    lacking = facts.missing_or_empty("sends", "polls")
    if lacking is not None:
        return lacking
    return facts.without_final_read() or facts.without_offsets()


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if there are none."""
    inverted = work.rows(INVERSIONS)
    if inverted is None or work.tables.polls is None:
        return None
    final_rows = work.tables.polls.where("final AND value IS NOT NULL").select(*PARTITION, "offset", "value")
    if work.leaders is not None:
        of_leaders = work.leaders.where("value IS NOT NULL").select(*PARTITION, "offset", "value")
        final_rows = union([final_rows, of_leaders])
    pairs = inverted.withColumn("place", F.struct("before.offset", "before.value"))
    found = final_rows.select(*PARTITION, F.struct("offset", "value").alias("place")).join(pairs, [*PARTITION, "place"])
    found = found.dropDuplicates([*PARTITION, "offset", "value"])
    found = found.withColumn("idempotent", is_idempotent(work.runs))
    return items_of(found, RULE.name, ("producer", "sequence", "before", "idempotent"), value="value")


RULE = Anomaly(
    means="acked value below the value that its producer sent before it",
    one="reordered record",
    many="reordered records",
    why_unknown=why_unknown,
    items=_items,
    questions=(Disordered,),
    example="""
        A producer sent value 1 before value 2. Value 2 has the lower offset.
        sends: 1=1 0=2
        polls: final 0=2 1=1
        gives: offset=0 value=2
    """,
)
