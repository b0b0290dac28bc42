"""Reads topics with Spark's Kafka connector, as a process of its own.

It is started as `python -m ebbtide.command analysis.witness.reading CONFIG.json`. It runs in the
clients' network namespace while the cluster is still up, and reads each partition from the log
start to the HW that the harness's final read was given. With `failOnDataLoss=false` it leaves out
what is missing, and the judge says whether that agrees. Spark writes the payloads; their values are
decoded from its files.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from analysis.spark.session import session
from analysis.witness.table import WitnessConfig
from ebbtide.journal.payload import value_of
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.manifest import FinalOffsets
from ebbtide.record.tables import WITNESS_SCHEMA


def read_witness(config: WitnessConfig) -> None:
    """Write the table; the folder appears only once it is whole."""
    into = Path(config.into)
    part, raw = into.with_name(f".{into.name}.part"), into.with_name(f".{into.name}.raw")
    for left in (part, raw):
        shutil.rmtree(left, ignore_errors=True)
    try:
        with session(jars=[Path(jar) for jar in config.jars]) as spark:
            rows = (
                spark.read.format("kafka")
                .option("kafka.bootstrap.servers", ",".join(config.bootstrap))
                .option("assign", _json({topic: sorted(ends) for topic, ends in _by_topic(config).items()}))
                .option("startingOffsets", _offsets(config, "log_start"))
                .option("endingOffsets", _offsets(config, "high_watermark"))
                .option("failOnDataLoss", "false")
                .load()
            )
            rows.select("topic", "partition", "offset", "value").write.parquet(str(raw))
        part.mkdir()
        _decode(raw, part / "0.parquet", config.run_id)
        part.rename(into)
    finally:
        shutil.rmtree(raw, ignore_errors=True)
        shutil.rmtree(part, ignore_errors=True)


def _decode(raw: Path, to: Path, run_id: str) -> None:
    value = value_of(run_id)
    with pq.ParquetWriter(to, WITNESS_SCHEMA, compression="zstd") as writer:
        for batch in ds.dataset(raw, format="parquet").to_batches():
            payloads = batch.column("value").to_pylist()
            values = pa.array([None if one is None else value(one) for one in payloads], pa.int64())
            columns = [batch.column(name).cast(WITNESS_SCHEMA.field(name).type) for name in WITNESS_SCHEMA.names[:3]]
            writer.write_batch(pa.RecordBatch.from_arrays([*columns, values], schema=WITNESS_SCHEMA))


def _by_topic(config: WitnessConfig) -> dict[str, dict[int, FinalOffsets]]:
    topics: dict[str, dict[int, FinalOffsets]] = {}
    for name, ends in config.final_offsets.items():
        topic, partition = TopicPartition.parse(name)
        topics.setdefault(topic, {})[partition] = ends
    return topics


def _offsets(config: WitnessConfig, end: str) -> str:
    return _json(
        {
            topic: {str(partition): getattr(ends, end) for partition, ends in of.items()}
            for topic, of in _by_topic(config).items()
        }
    )


def _json(what: object) -> str:
    return msgspec.json.encode(what).decode()


if __name__ == "__main__":
    read_witness(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=WitnessConfig))
