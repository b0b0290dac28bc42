"""The history of values: one row for each value at an offset, with all evidence.

A row is a value that was sent, read or found at an offset. The data: acknowledgements (sends), what
consumers returned (polls), and the log of the last leader after the run (replicas). Two views of
the same rows are needed, by offset (what else was there) and by value (where else it was); each is
one shuffle. The rows that may be in an anomaly, mostly few, are shuffled by offset once more, to be
compared with the rest of theirs. Every kind of anomaly that compares values reads the result in one
pass.

Columns of a row: `topic`, `partition`, `offset` (null: sent, and no offset is known) and `value`,
and

- of its acknowledgement there: `acked`, `acks`, `sequence`, `sent_ns`, `done_ns`;
- of the ordinary consumers that returned it there: `read_ns` (first time), `reader`;
- `in_final`: the final read returned it there, last at `final_ns`;
- `in_leader`: it stands there in the last leader's own log;
- `evidenced`: acked or polled there; `damaged`: a consumer returned a null value at that offset;
- `epoch`: the lowest leader epoch that it is known to have been appended under there;
- `in_final_log`: `in_final` or `in_leader`;
- of its acknowledgement and the metadata log: `era`, the leader epoch in force when it came (null:
  not known);
- of the HWs above its offset that were observed since it was sent: `hw_seen`, whether there are
  any, and `hw_epoch`, the lowest leader epoch of one;
- of its offset: `at_offset`, how many values were there; rows without a value (a control record, a
  damaged one) count as one, and `nameless` says whether there are any; `final_log_epoch`: the lowest
  leader epoch of what stands there, 0 if an epoch is not known;
- of its value: `producer` (null: no row in sends), `in_transaction`, `in_committed`, `in_aborted`,
  `failed`; `placed`, at how many offsets it was seen;
- what else was at that offset, and where else the value was: see the module crowds;
- of its partition: the columns of `facts.partition_facts` that are not lists.

A row that stands where it was acked or read, alone and nowhere else, is in no anomaly and is left
out.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from analysis.reconcile import crowds
from analysis.reconcile.crowds import PLACE
from analysis.rows.facts import Facts, final_leaders
from analysis.spark.columns import is_transactional, runs_where
from analysis.spark.parts import in_one_part, placed_by, union
from analysis.spark.sql import Column, DataFrame, F, SparkSession, Window
from analysis.spark.tables import RecordTables
from ebbtide.record.tables import schema_of_rows

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
_LOWEST = ("read_ns", "epoch")
_OF_VALUE = ("producer", "in_transaction", "in_committed", "in_aborted", "failed")
_LEADERS = schema_of_rows("run int32 topic string partition int32 broker int32")


def suspicious_history(
    tables: RecordTables, leaders: DataFrame | None, runs: Sequence[Facts], partitions: DataFrame
) -> DataFrame | None:
    """Return the rows that may be part of an anomaly; None without rows to compare.

    `leaders` is `leader_logs`, `partitions` is `facts.partition_facts`.
    """
    placed = [part for part in (_placed_acks(tables), _placed_polls(tables), leaders) if part is not None]
    if not placed:
        return None
    rows = _by_value(_by_offset(union(placed)), _unplaced_sends(tables)).where(_is_suspicious(runs))
    # Only the remaining rows, mostly few, are compared with the rest of their offset and value.
    told = _with_partition_facts(rows.join(F.broadcast(partitions), ["run", "topic", "partition"], "left"))
    return crowds.with_others(crowds.with_places(told))


def _placed_acks(tables: RecordTables) -> DataFrame | None:
    """Return the acknowledgements whose offset is known."""
    if tables.sends is None:
        return None
    sends = tables.sends.where("status = 'acked' AND offset IS NOT NULL")
    return _evidence(sends, **_of_sends(), offset=F.col("offset"), acked=F.lit(True))


def _unplaced_sends(tables: RecordTables) -> DataFrame | None:
    """Return all other sends: they say something of a value, but give no offset."""
    if tables.sends is None:
        return None
    return _evidence(tables.sends.where("status <> 'acked' OR offset IS NULL"), **_of_sends())


def _of_sends() -> dict[str, Column]:
    same = {name: F.col(name) for name in ("acks", "sequence", "sent_ns", "done_ns", "producer")}
    return {
        **same,
        "in_transaction": is_transactional(),
        "in_committed": F.col("txn_outcome") == "committed",
        "in_aborted": F.col("txn_outcome") == "aborted",
        "failed": F.col("status") == "failed",
    }


def _placed_polls(tables: RecordTables) -> DataFrame | None:
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
    """Return the log of each partition's last leader after the run.

    Control records are included; their value is null.
    """
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
    """Return rows with the columns `_EVIDENCE`.

    The partition and value stay as they are; columns that are not given are null.
    """
    columns = {name: F.col(name) for name in ("run", "topic", "partition", "value")} | columns
    return rows.select(*(columns.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in _EVIDENCE.items()))


def _by_offset(evidence: DataFrame) -> DataFrame:
    """Return one row a value and offset, with what all rows of that offset say of it.

    Rows without a value are dropped here.
    """
    facts = [
        (F.min if name in _LOWEST else F.max)(name).alias(name)
        for name in _EVIDENCE
        if name not in (*PLACE, "value", "reader")
    ]
    # Shuffled by place first, the grouping and the window after it need no shuffle of their own.
    rows = (
        placed_by(evidence, *PLACE)
        .groupBy(*PLACE, "value")
        .agg(*facts, F.min_by("reader", "read_ns").alias("reader"))
        .withColumn("evidenced", F.col("acked").isNotNull() | F.col("polled_ns").isNotNull())
    )
    rows = rows.withColumn("in_final_log", F.coalesce("in_final", F.lit(False)) | F.coalesce("in_leader", F.lit(False)))
    here = Window.partitionBy(*PLACE)
    nameless = F.col("value").isNull()
    return rows.withColumns(
        {
            "at_offset": F.count("*").over(here),
            "nameless": F.bool_or(nameless).over(here),
            "damaged": F.bool_or(nameless & F.col("polled_ns").isNotNull()).over(here),
            "final_log_epoch": F.min(F.when(F.col("in_final_log"), F.coalesce("epoch", F.lit(0)))).over(here),
        }
    ).where("value IS NOT NULL")


def _by_value(rows: DataFrame, unplaced: DataFrame | None) -> DataFrame:
    """Return the same rows, with what is known of their value wherever it stands."""
    if unplaced is not None:
        rows = in_one_part(rows.unionByName(unplaced, allowMissingColumns=True))
    value = Window.partitionBy("run", "value")
    return placed_by(rows, "run", "value").withColumns(
        {"placed": F.count("offset").over(value), **{name: F.max(name).over(value) for name in _OF_VALUE}}
    )


def _is_suspicious(runs: Sequence[Facts]) -> Column:
    """Return whether a row may be in an anomaly, or is evidence for one.

    Where this is false, it surely is neither. Of an offset that had several values, all rows are
    taken; likewise of a value at several offsets. `with_places` and `with_others` rely on it.
    """
    gone = F.col("evidenced") & ~F.coalesce("in_final", F.lit(False))
    gone &= runs_where(runs, lambda facts: facts.final_consumer is not None)
    forbidden = crowds.is_forbidden_read()
    return F.col("offset").isNotNull() & ((F.col("at_offset") > 1) | (F.col("placed") > 1) | gone | forbidden)


def _with_partition_facts(rows: DataFrame) -> DataFrame:
    """Replace the lists of `facts.partition_facts` by what they say of each row."""
    acked_ns = F.coalesce("done_ns", "sent_ns")
    begun = F.filter("elections", lambda election: election["since_ns"] <= acked_ns)
    above = F.filter(
        "served",
        lambda one: (one["high_watermark"] > F.col("offset")) & (one["at_ns"] >= F.col("sent_ns")),
    )
    return rows.withColumns(
        {
            "era": F.array_max(F.transform(begun, lambda election: election["leader_epoch"])),
            "hw_seen": F.size(above) > 0,
            "hw_epoch": F.array_min(F.transform(above, lambda one: one["leader_epoch"])),
            "epoch_group": crowds.epoch_group(),
        }
    ).drop("elections", "served")
