"""The clocks of all nodes go back an hour: times of a run are right nevertheless, and the run is judged."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow.parquet as pq
import pytest
from live.in_process import run_and_judge

from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import read_steps
from faults.clock import TOLERANCE_MS
from harness.runner.launch import LaunchOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.spark]

HOUR_MS = 3_600_000

SCENARIO = """
name = "clocks-back"
title = "All clocks go back, and the broker is killed"
kafka = ["3.9.1", "4.3.1"]

[cluster]
brokers = 1
# With the default of 25 ms, a clock that goes back while the controller waits for more records stops it for an hour.
controller_properties = { "controller.quorum.append.linger.ms" = "0" }

[topics.t]
replication_factor = 1
min_isr = 1
config = { "message.timestamp.type" = "LogAppendTime" }

[[producers]]
id = 1
topic = "t"
rate_per_s = 100

[[steps]]
step = "set-clock"
offset = "-1h"
trigger = { acked = 200 }

[[steps]]
step = "kill"
target = "broker(1)"
trigger = { after = "2s" }

[[steps]]
step = "start"
target = "broker(1)"
trigger = { broker_is = { broker = "broker(1)", state = "fenced" } }

[[steps]]
step = "wait"
trigger = { broker_is = { broker = "broker(1)", state = "unfenced" } }

[[steps]]
step = "reset-clock"
trigger = { after = "2s" }

[[predictions]]
kafka = ">=3.3"
clause = "order comes from offsets"
loss = { committed = "none" }
hw_regression = "none"
exercised = ["clocks-set", "kills"]
"""


@pytest.mark.parametrize(
    ("runtime", "kafka"),
    [
        ("local", "4.3.1"),
        pytest.param("local", "3.9.1", marks=pytest.mark.slow),
        pytest.param("docker", "4.3.1", marks=[pytest.mark.docker, pytest.mark.slow]),
    ],
)
def test_clocks_that_go_back_change_kafkas_times_and_not_those_of_the_run(
    runtime: Literal["local", "docker"], kafka: str, spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "clocks-back.toml"
    file.write_text(SCENARIO)
    options = LaunchOptions(runs=tmp_path / "runs", runtime=runtime)
    [(record, verdict)] = run_and_judge(file, kafka, options=options, spark=spark)
    assert verdict.outcome == "as-predicted", verdict.why
    back, *_, right = read_steps(RecordFolder(record)) or ()
    for node in ("1", "100"):
        proof = back.proof["nodes"][node]
        assert (proof["before_ms"], proof["after_ms"]) == pytest.approx((0, -HOUR_MS), abs=TOLERANCE_MS)
        assert right.proof["nodes"][node]["after_ms"] == pytest.approx(0, abs=TOLERANCE_MS)

    manifest = read_manifest(RecordFolder(record))
    for table in ("partitions", "brokers"):
        rows = pq.read_table(record / f"{table}.parquet").sort_by("metadata_offset")
        times = rows.column("at_ns").to_pylist()
        assert times == sorted(times)
        assert manifest.start_ns < min(times) <= max(times) < (manifest.end_ns or 0)
    written = pq.read_table(record / "replicas" / "broker-1.parquet").sort_by("offset").column("timestamp_ms")
    jumps = [later - earlier for earlier, later in pairwise(written.to_pylist()) if abs(later - earlier) > HOUR_MS / 2]
    assert len(jumps) == 2
    assert jumps == pytest.approx([-HOUR_MS, HOUR_MS], abs=60_000)
