"""Writes anomalies/: every anomaly of a run as Parquet.

Many runs are written at once, and each is replaced in one step.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from analysis.reconcile.work import PUBLIC, RUN
from analysis.remote.record import RemoteRecord
from analysis.spark.sql import DataFrame
from ebbtide.errors import HarnessError
from ebbtide.record.files import ANOMALIES_DIR, RecordFolder
from ebbtide.record.tables import ANOMALY_SCHEMA


def check_writable(record: RecordFolder) -> None:
    """Raise `HarnessError` early if anomalies/ cannot be replaced."""
    if not os.access(record.path, os.W_OK | os.X_OK):
        raise HarnessError(
            "the record cannot be written to, and its judgement is kept in it",
            where=str(record),
            allowed="a folder with write permission",
            next=f"cp -r {record} . && chmod -R u+w {record.path.name}    (then analyze the copy)",
        )


def store(
    records: Sequence[RecordFolder], items: DataFrame | None, some: Sequence[bool], remote: RemoteRecord | None = None
) -> None:
    """Replace anomalies/ of each record with its items.

    `some`: which records have any. The column `run` is a record's index. `remote`: what the first
    of them is a copy of; Spark's executors, which cannot write to the copy, write there. Raises
    `HarnessError` when that cannot be done.
    """
    # This cannot be foreseen: a record that somebody else made may hold a link to anywhere.
    hidden = f".{ANOMALIES_DIR}.{secrets.token_hex(8)}"
    written = records[0] / f"{hidden}.all"
    try:
        if items is not None and any(some):
            rows = items.select(*RUN, *PUBLIC).write.option("compression", "zstd").partitionBy("run")
            if remote is None:
                rows.parquet(str(written))
            else:
                with remote.staging_address(written) as address:
                    rows.parquet(address)
        for run, record in enumerate(records):
            _replace(record / hidden, record / ANOMALIES_DIR, written / f"run={run}" if some[run] else None)
    except OSError as error:
        raise HarnessError("the anomalies cannot be stored", where=str(records[0]), got=str(error)) from None
    finally:
        shutil.rmtree(written, ignore_errors=True)


def _replace(hidden: Path, target: Path, rows: Path | None) -> None:
    """Replace `target` by the folder `rows`, or by an empty table if it is None.

    `hidden` is the name of the folder that is being replaced.
    """
    part, old = hidden.with_name(f"{hidden.name}.part"), hidden.with_name(f"{hidden.name}.old")
    try:
        if rows is not None:
            shutil.move(rows, part)
            # Spark's own names are long, and people read them in `ebbtide explain`.
            for number, file in enumerate(sorted(part.glob("*.parquet"))):
                file.rename(part / f"part-{number:05}.parquet")
        else:
            part.mkdir()
            pq.write_table(ANOMALY_SCHEMA.empty_table(), part / "none.parquet", compression="zstd")
        if target.is_symlink():
            target.unlink()
        elif target.exists():
            os.replace(target, old)
        os.replace(part, target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
