"""The history of values: one row for each value that was sent, read or found at an offset, and what else is known.

The data: acknowledgements (sends), what consumers returned (polls), and the log of the last leader after the
run (replicas). Two views of the same rows are needed, by offset (what else stood there) and by value (where else
it stood); each is one shuffle, and every kind of anomaly that compares values reads the result in one pass.

Columns of a row: `topic`, `partition`, `offset` (null: sent, and no offset is known) and `value`, and

- of its acknowledgement there: `acked`, `acks`, `sequence`, `sent_ns`, `done_ns`;
- of the ordinary consumers that returned it there: `read_ns` (first time), `reader`;
- `in_final`: the final read returned it there, last at `final_ns`;
- `in_leader`: it stands there in the last leader's own log;
- `evidenced`: acked or polled there; `damaged`: a consumer returned a null value at that offset;
- `epoch`: the lowest leader epoch that it is known to have been appended under there;
- `others`: what else stood at that offset, as structs (value, polled_ns: last time, epoch, evidenced, final_ns,
  in_leader);
- of its value: `places`, everywhere it was seen, as structs (topic, partition, offset, evidenced, read, stands, seen,
  shown: by a read_committed consumer);
  `producer` (null: no row in sends), `in_transaction`, `in_committed`, `in_aborted`, `failed`;
- of its partition: the columns of `facts.partition_facts`.

A row that stands where it was acked or read, alone and nowhere else, is in no anomaly and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from analysis.reconcile.blocks import in_transaction
from analysis.reconcile.facts import Facts, final_leaders, runs_where
from analysis.reconcile.tables import RecordTables

_EVIDENCE = {
    "run": "int",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "value": "bigint",
    "acked": "boolean",
    "acks": "int",
    "sequence": "bigint",
    "sent_ns": "bigint",
    "done_ns": "bigint",
    "producer": "int",
    "in_transaction": "boolean",
    "in_committed": "boolean",
    "in_aborted": "boolean",
    "failed": "boolean",
    "read_ns": "bigint",
    "reader": "int",
    "polled_ns": "bigint",
    "shown": "boolean",
    "in_final": "boolean",
    "final_ns": "bigint",
    "in_leader": "boolean",
    "epoch": "int",
}
_PLACE = ["run", "topic", "partition", "offset"]
_LOWEST = ("read_ns", "epoch")
_OF_VALUE = ("producer", "in_transaction", "in_committed", "in_aborted", "failed")
_LEADERS = pa.schema(
    [
        pa.field("run", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("broker", pa.int32()),
    ]
)


def suspicious_history(
    tables: RecordTables, leaders: DataFrame | None, runs: Sequence[Facts], partitions: DataFrame
) -> DataFrame | None:
    """The rows that may be part of an anomaly; None when there is nothing to compare.

    `leaders` is `leader_logs`, `partitions` is `facts.partition_facts`.
    """
    placed = [part for part in (_acked(tables), _polled(tables), leaders) if part is not None]
    if not placed:
        return None
    rows = _by_value(_by_offset(reduce(DataFrame.union, placed)), _unplaced(tables))
    return rows.where(_suspicious(runs)).join(F.broadcast(partitions), ["run", "topic", "partition"], "left")


def _acked(tables: RecordTables) -> DataFrame | None:
    """Acknowledgements whose offset is known."""
    if tables.sends is None:
        return None
    sends = tables.sends.where("status = 'acked' AND offset IS NOT NULL")
    return _evidence(sends, **_of_sends(), offset=F.col("offset"), acked=F.lit(True))


def _unplaced(tables: RecordTables) -> DataFrame | None:
    """All other sends: what they say of a value counts, but they put it at no offset."""
    if tables.sends is None:
        return None
    return _evidence(tables.sends.where("status <> 'acked' OR offset IS NULL"), **_of_sends())


def _of_sends() -> dict[str, Column]:
    same = {name: F.col(name) for name in ("acks", "sequence", "sent_ns", "done_ns", "producer")}
    return {
        **same,
        "in_transaction": in_transaction(),
        "in_committed": F.col("txn_outcome") == "committed",
        "in_aborted": F.col("txn_outcome") == "aborted",
        "failed": F.col("status") == "failed",
    }


def _polled(tables: RecordTables) -> DataFrame | None:
    if tables.polls is None:
        return None
    return _evidence(
        tables.polls.where("counts"),
        offset=F.col("offset"),
        read_ns=F.when(~F.col("final"), F.col("polled_ns")),
        reader=F.when(~F.col("final"), F.col("consumer")),
        polled_ns=F.col("polled_ns"),
        shown=F.col("isolation") == "read_committed",
        in_final=F.col("final"),
        final_ns=F.when(F.col("final"), F.col("polled_ns")),
        epoch=F.col("leader_epoch"),
    )


def leader_logs(spark: SparkSession, tables: RecordTables, runs: Sequence[Facts]) -> DataFrame | None:
    """The log of each partition's last leader after the run, control records included (their value is null)."""
    leaders = [
        {"run": facts.run, "topic": topic, "partition": partition, "broker": broker}
        for facts in runs
        for (topic, partition), broker in final_leaders(facts).items()
    ]
    if tables.replicas is None or not leaders:
        return None
    small = spark.createDataFrame(pa.Table.from_pylist(leaders, schema=_LEADERS))
    rows = tables.replicas.join(F.broadcast(small), _LEADERS.names)
    return _evidence(rows, offset=F.col("offset"), in_leader=F.lit(True), epoch=F.col("leader_epoch"))


def _evidence(rows: DataFrame, **columns: Column) -> DataFrame:
    """Rows with the columns `_EVIDENCE`: the partition and value as they are, what is not given is null."""
    columns = {name: F.col(name) for name in ("run", "topic", "partition", "value")} | columns
    return rows.select(*(columns.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in _EVIDENCE.items()))


def _by_offset(evidence: DataFrame) -> DataFrame:
    """One row a value and offset, with what else stood at that offset; values that are null end here."""
    facts = [
        (F.min if name in _LOWEST else F.max)(name).alias(name)
        for name in _EVIDENCE
        if name not in (*_PLACE, "value", "reader")
    ]
    # Shuffled by place first, the grouping and the window after it need no shuffle of their own.
    rows = (
        evidence.repartition(*_PLACE)
        .groupBy(*_PLACE, "value")
        .agg(*facts, F.min_by("reader", "read_ns").alias("reader"))
        .withColumn("evidenced", F.col("acked").isNotNull() | F.col("polled_ns").isNotNull())
    )
    one = F.struct("value", "polled_ns", "epoch", "evidenced", "final_ns", "in_leader")
    here = F.collect_list(one).over(Window.partitionBy(*_PLACE))
    rows = rows.withColumn("here", here)
    return rows.where("value IS NOT NULL").withColumns(
        {
            "others": F.filter("here", lambda one: ~one["value"].eqNullSafe(F.col("value"))),
            "damaged": F.exists("here", lambda one: one["value"].isNull() & one["polled_ns"].isNotNull()),
        }
    )


def _by_value(rows: DataFrame, unplaced: DataFrame | None) -> DataFrame:
    """The same rows, with everywhere else that their value was seen."""
    if unplaced is not None:
        rows = rows.unionByName(unplaced, allowMissingColumns=True)
    value = Window.partitionBy("run", "value")
    place = F.struct(
        "topic",
        "partition",
        "offset",
        F.coalesce("evidenced", F.lit(False)).alias("evidenced"),
        F.col("read_ns").isNotNull().alias("read"),
        (F.coalesce("in_final", F.lit(False)) | F.coalesce("in_leader", F.lit(False))).alias("stands"),
        F.col("polled_ns").isNotNull().alias("seen"),
        F.coalesce("shown", F.lit(False)).alias("shown"),
    )
    return rows.repartition("run", "value").withColumns(
        {
            "places": F.collect_list(F.when(F.col("offset").isNotNull(), place)).over(value),
            **{name: F.max(name).over(value) for name in _OF_VALUE},
        }
    )


def _suspicious(runs: Sequence[Facts]) -> Column:
    """Whether a row may be in an anomaly; a row for which this is false surely is in none."""
    crowded = F.col("evidenced") & (F.size("others") > 0)
    repeated = F.size(F.filter("places", lambda place: place["evidenced"])) > 1
    gone = F.col("evidenced") & ~F.coalesce("in_final", F.lit(False))
    gone &= runs_where(runs, lambda facts: facts.final_consumer is not None)
    forbidden = F.col("polled_ns").isNotNull() & (F.col("failed") | F.col("in_aborted"))
    return F.coalesce(crowded | repeated | gone | forbidden, F.lit(False))
