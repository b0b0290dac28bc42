"""Two recorded runs that replays are compared on, and changes to them.

Another run might have made these changes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from checkout import DATA

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest, write_manifest
from ebbtide.record.steps import read_steps, write_steps
from ebbtide.record.tables import TABLES
from ebbtide.record.verdict import read_verdict, write_verdict
from harness.replay.recorded_run import LoadedRun, load_run

RUNS = DATA / "runs"
LOST = RUNS / "last-replica-standing-3.9.1"
SAVED = RUNS / "last-replica-standing-4.3.1"

Rows = list[dict[str, Any]]


def changed_copy(record: Path, folder: Path, **tables: Callable[[Rows], Rows]) -> LoadedRun:
    """A copy of a record with tables changed; `folder` is made."""
    shutil.copytree(record, folder)
    for name, change in tables.items():
        path = folder / f"{name}.parquet"
        rows = change(pq.read_table(path).to_pylist())
        pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[name]), path)
    return load_run(folder)


def renamed_copy(record: Path, folder: Path, naming: Mapping[int, int]) -> LoadedRun:
    """The same run on brokers of other ids."""

    def brokers(ids: list[int]) -> list[int]:
        return [naming.get(one, one) for one in ids]

    def states(rows: Rows) -> Rows:
        lists = ("replicas", "isr", "elr", "last_known_elr", "adding", "removing")
        return [
            {**row, "leader": naming.get(row["leader"], row["leader"]), **{name: brokers(row[name]) for name in lists}}
            for row in rows
        ]

    def events(rows: Rows) -> Rows:
        return [{**row, "broker": naming[row["broker"]]} for row in rows]

    changed_copy(record, folder, partitions=states, brokers=events)
    steps = [
        msgspec.structs.replace(entry, nodes=tuple(sorted(brokers(list(entry.nodes)))))
        for entry in read_steps(RecordFolder(folder)) or []
    ]
    write_steps(RecordFolder(folder), steps)
    write_manifest(RecordFolder(folder), msgspec.structs.replace(read_manifest(RecordFolder(folder)), run_id="renamed"))
    return load_run(folder)


def judged_otherwise(tmp_path: Path, **changes: object) -> LoadedRun:
    """The run that lost, with these keys of its verdict changed."""
    folder = Path(shutil.copytree(LOST, tmp_path / "run"))
    verdict = read_verdict(RecordFolder(folder))
    assert verdict is not None
    write_verdict(RecordFolder(folder), msgspec.structs.replace(verdict, **changes))
    return load_run(folder)
