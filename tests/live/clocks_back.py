"""What clocks that go back an hour change in a record, and what they do not."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import StepEntry
from faults.clock import TOLERANCE_MS

HOUR_MS = 3_600_000


def check_clocks_went_back(record: Path, back: StepEntry, right: StepEntry, *, broker: int) -> None:
    """The clocks of all nodes went back an hour and right again: Kafka's times show it, those of the run do not.

    `broker` has a log of t-0, whose times are the broker's own.
    """
    for node, proof in back.proof["nodes"].items():
        assert (proof["before_ms"], proof["after_ms"]) == pytest.approx((0, -HOUR_MS), abs=TOLERANCE_MS)
        assert right.proof["nodes"][node]["after_ms"] == pytest.approx(0, abs=TOLERANCE_MS)

    manifest = read_manifest(RecordFolder(record))
    for table in ("partitions", "brokers"):
        times = pq.read_table(record / f"{table}.parquet").sort_by("metadata_offset").column("at_ns").to_pylist()
        assert times == sorted(times)
        assert manifest.start_ns < min(times) <= max(times) < (manifest.end_ns or 0)
    log = pq.read_table(record / "replicas" / f"broker-{broker}.parquet").filter(pc.field("partition") == 0)
    written = log.sort_by("offset").column("timestamp_ms").to_pylist()
    jumps = [later - earlier for earlier, later in pairwise(written) if abs(later - earlier) > HOUR_MS / 2]
    assert len(jumps) == 2
    assert jumps == pytest.approx([-HOUR_MS, HOUR_MS], abs=60_000)
