"""The clocks of all nodes go back an hour: times of a run are right nevertheless, and the run is judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from live.clocks_back import check_clocks_went_back
from live.in_process import run_and_judge

from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import read_steps
from harness.runner.launch import LaunchOptions

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.spark]

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
        ("local", "3.9.1"),
        pytest.param("docker", "4.3.1", marks=pytest.mark.docker),
    ],
)
def test_clocks_that_go_back_change_kafkas_times_and_not_those_of_the_run(
    runtime: Literal["local", "docker"], kafka: str, spark_if_needed: Spark, tmp_path: Path
) -> None:
    file = tmp_path / "clocks-back.toml"
    file.write_text(SCENARIO)
    options = LaunchOptions(runs=tmp_path / "runs", runtime=runtime)
    [(record, verdict)] = run_and_judge(file, kafka, options=options, spark=spark_if_needed)
    assert verdict.outcome == "as-predicted", verdict.why
    back, *_, right = read_steps(RecordFolder(record)) or ()
    assert back.proof["nodes"].keys() == {"1", "100"}
    check_clocks_went_back(record, back, right, broker=1)
