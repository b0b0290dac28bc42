"""anomalies/: every anomaly of a run as Parquet, replaced in one step."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from analysis.reconcile.items import PUBLIC
from harness.errors import HarnessError
from harness.record.files import ANOMALIES_DIR

ANOMALY_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("value", pa.int64()),
        pa.field("details", pa.string()),
    ]
)


def check_writable(record: Path) -> None:
    """Raise `HarnessError` when anomalies/ cannot be replaced, before any work is done."""
    if not os.access(record, os.W_OK | os.X_OK):
        raise HarnessError(
            "the record cannot be written to, and its judgement is kept in it",
            where=str(record),
            allowed="a folder with write permission",
            next=f"cp -r {record} . && chmod -R u+w {record.name}    (then analyze the copy)",
        )


def store(record: Path, items: DataFrame | None) -> None:
    """Replace the record's anomalies/ with `items`; None: there are none, which is a table without rows.

    Raises `HarnessError` when that cannot be done.
    """
    target = record / ANOMALIES_DIR
    part = record / f".{ANOMALIES_DIR}.{os.getpid()}.part"
    old = record / f".{ANOMALIES_DIR}.{os.getpid()}.old"
    try:
        shutil.rmtree(part, ignore_errors=True)
        if items is not None:
            items.select(*PUBLIC).write.option("compression", "zstd").parquet(str(part))
        else:
            part.mkdir()
            pq.write_table(ANOMALY_SCHEMA.empty_table(), part / "none.parquet", compression="zstd")
        if target.exists():
            os.replace(target, old)
        os.replace(part, target)
    except OSError as error:
        raise HarnessError("the anomalies cannot be stored", where=str(target), got=str(error)) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
