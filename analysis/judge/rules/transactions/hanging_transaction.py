"""hanging-transaction: a partition has an open transaction that no coordinator will ever end.

The rule: one item a partition whose last stable offset (LSO) was below its HW at the final read, although every
transaction of the run had ended. The LSO is the offset of the first record of an open transaction. A read_committed
consumer never gets beyond it.

The data: the manifest. `final_transactions` has what every coordinator said of the run's transactional ids after the
producers had ended, and `final_offsets` has the LSO and HW that the leader served after that. The final read and the
sends name the record at the LSO, and its transaction.

Why it is sound: a coordinator calls a transaction complete only when the leaders of all its partitions have written
their markers. So no marker is on its way that could still move the LSO. A leader whose HW is still behind a marker
moves on within seconds: the LSO must have stood still before the final read, and be the same in it. Nobody else writes
to the run's topics.

When it cannot tell: where nobody asked for the LSO, which is so in every record of an older Ebbtide. Where the LSO is
below the HW, and a broker did not say what it coordinates, a transaction had not ended, or the LSO had not stood still.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from analysis.judge.rules.anomaly import Anomaly
from analysis.reconcile.model import GroupsOfKind, HangingTransaction
from analysis.reconcile.work import Work, items_of
from analysis.record.groups import BITS
from analysis.rows.facts import Facts
from analysis.rows.question import KindAnswer, KindQuestion, RunSums
from analysis.spark.sql import DataFrame, F
from analysis.spark.tables import RecordTables
from ebbtide.coverage_fact import Fact
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.manifest import STILL_S, Manifest
from ebbtide.record.tables import schema_of_rows

_SENT = ("producer", "txn", "txn_outcome", "status", "sent_ns")
_HANGING = schema_of_rows("""
    run int32 topic string partition int32 last_stable int64 high_watermark int64 final_consumer int32
""")


def asked_no_coordinator(manifest: Manifest) -> bool:
    """Whether an older Ebbtide made the record, which keeps its outcome: its final read asked no coordinator."""
    return manifest.final_transactions is None and manifest.final_consumer is not None


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    if facts.final_transactions is None:
        return "nobody asked for the last stable offsets at the final read" if facts.has_transactions else None
    if unasked := sorted(name for name, ends in facts.final_offsets.items() if ends.last_stable is None):
        return f"no leader gave the last stable offset of {unasked[0]}"
    below = _below_hw(facts)
    if below and (why := facts.final_transactions.why_open()) is not None:
        return why
    still = facts.final_transactions.still
    moved = [name for name in below if still.get(name) != facts.final_offsets[name].last_stable]
    return f"the last stable offset of {moved[0]} had not stood still for {STILL_S:g} s" if moved else None


def _below_hw(facts: Facts) -> list[str]:
    """Return the partitions whose LSO was below the HW."""
    return sorted(
        name
        for name, ends in facts.final_offsets.items()
        if ends.last_stable is not None and ends.last_stable < ends.high_watermark
    )


class _Hanging(KindQuestion):
    """Is there a partition whose last stable offset was below its HW at the final read?"""

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the block of each such offset."""
        if summed.facts.final_transactions is None:
            return KindAnswer()
        places = [(TopicPartition.parse(name), name) for name in _below_hw(summed.facts)]
        lso = {(at.topic, at.partition): summed.facts.final_offsets[name].last_stable or 0 for at, name in places}
        return KindAnswer(offsets={place: np.array([offset >> BITS], np.int64) for place, offset in lso.items()})


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if there are none."""
    hanging = [
        {
            "run": facts.run,
            "topic": partition.topic,
            "partition": partition.partition,
            "last_stable": facts.final_offsets[name].last_stable,
            "high_watermark": facts.final_offsets[name].high_watermark,
            "final_consumer": facts.final_consumer,
        }
        for facts in work.runs
        if facts.final_transactions is not None and why_unknown(facts) is None
        for name in _below_hw(facts)
        for partition in (TopicPartition.parse(name),)
    ]
    if not hanging:
        return None
    rows = work.spark.createDataFrame(pa.Table.from_pylist(hanging, schema=_HANGING))
    rows = _with_sends(_with_values(rows, work.tables), work.tables)
    details = ("last_stable", "high_watermark", *_SENT)
    return items_of(rows, RULE.name, details, offset="last_stable", value="value")


def _with_values(rows: DataFrame, tables: RecordTables) -> DataFrame:
    """Add the value that the final read returned at the LSO; null if it returned none."""
    if tables.polls is None:
        return rows.withColumn("value", F.lit(None).cast("bigint"))
    at_stable = ["run", "topic", "partition", "last_stable", "final_consumer"]
    read = tables.polls.select(
        "run",
        "topic",
        "partition",
        F.col("offset").alias("last_stable"),
        F.col("consumer").alias("final_consumer"),
        "value",
    )
    values = (
        read.join(F.broadcast(rows.select(*at_stable)), at_stable)
        .groupBy(*at_stable)
        .agg(F.min("value").alias("value"))
    )
    return rows.join(values, at_stable, "left")


def _with_sends(rows: DataFrame, tables: RecordTables) -> DataFrame:
    """Add what the sends say of the value: its producer, its transaction, and how both ended."""
    if tables.sends is None:
        return rows.withColumns({name: F.lit(None) for name in _SENT})
    sent = tables.sends.join(F.broadcast(rows.select("run", "value")), ["run", "value"], "left_semi")
    one = sent.groupBy("run", "value").agg(F.min(F.struct(*_SENT)).alias("sent"))
    named = rows.join(one, ["run", "value"], "left")
    return named.withColumns({name: F.col(f"sent.{name}") for name in _SENT})


RULE = Anomaly(
    means="partition with an open transaction that no coordinator will end",
    one="hanging transaction",
    many="hanging transactions",
    why_unknown=why_unknown,
    was_asked=lambda manifest: not asked_no_coordinator(manifest),
    items=_items,
    groups=GroupsOfKind(into=HangingTransaction),
    questions=(_Hanging,),
    fact=Fact(
        "clients",
        "hanging-transactions",
        "partitions whose last stable offset stayed below the HW after every transaction had ended",
        "KIP-890",
    ),
    example="""
        The last stable offset stays at 0, below the HW 1. The coordinators know no open transaction.
        setting: last_stable=0 transactional
        sends: offset=0 value=1 txn=1 txn_outcome=aborted
        polls: final 0=1
        gives: offset=0 value=1
    """,
)
