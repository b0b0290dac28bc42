"""Runs a small plan while the first record of a session is still being planned.

Java loads and links the code of a plan's steps when it first runs them, and one record keeps only one core busy. The
steps here resemble those of every record's first job, which therefore finds them loaded.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F


def begin_first_use(spark: SparkSession, folder: Path, settings: dict[str, str]) -> Thread:
    """Run the plan in the thread that is returned, in a session of its own with these settings.

    `folder` gets its rows. A failure is silent: it shows again with the record, or the session has ended.
    """

    def run() -> None:
        with contextlib.suppress(Exception):
            _run(spark.newSession(), folder / "first-use.parquet", settings)

    thread = Thread(target=run, name="first use", daemon=True)
    thread.start()
    return thread


def _run(spark: SparkSession, file: Path, settings: dict[str, str]) -> None:
    for key, value in settings.items():
        spark.conf.set(key, value)
    pq.write_table(pa.table({"topic": ["t"], "partition": pa.array([0], pa.int32()), "offset": [0]}), file)
    rows = spark.read.schema("topic string, partition int, offset bigint").parquet(str(file)).where("offset < 0")
    place = Window.partitionBy("topic", "partition").orderBy(F.desc("offset"))
    kept = (
        rows.withColumn("before", F.max("offset").over(place.rowsBetween(Window.unboundedPreceding, -1)))
        .groupBy("topic", "partition")
        .agg(
            F.count("*").alias("rows"),
            F.min(F.struct("offset", "before")).alias("first"),
            F.collect_list(F.when(F.col("before").isNull(), F.struct("offset"))).alias("peaks"),
        )
        .persist()
    )
    sums = kept.groupBy("topic").agg(F.sum("rows").alias("rows"), F.max("first").alias("last"))
    both = sums.select("topic", "rows", "last").union(kept.select("topic", "rows", "first"))
    both.select(F.to_json(F.struct("*"))).collect()
    kept.unpersist()
