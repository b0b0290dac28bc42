"""A dynamic quorum is formed with an observer, which becomes a voter while another voter becomes an observer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from live.in_process import run_and_judge

from ebbtide.kraft.commits import CommittedBatch
from ebbtide.record.files import QUORUM_FILE
from ebbtide.record.folder import RecordFolder
from ebbtide.record.steps import read_steps
from harness.runner.launch import LaunchOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.spark]

SCENARIO = """
name = "dynamic-quorum"
title = "An observer becomes a voter, and a voter an observer"
kafka = ["4.3.1"]

[cluster]
brokers = 1
controllers = 3
quorum = "dynamic"
initial_voters = 2

[topics.t]
replication_factor = 1
min_isr = 1

[[producers]]
id = 1
topic = "t"
rate_per_s = 100

[[steps]]
step = "add-voter"
target = "controller(102)"
trigger = { acked = 100 }

[[steps]]
step = "add-voter"
target = "controller(102)"
expect_error = "DUPLICATE_VOTER"

[[steps]]
step = "set-config"
resource = "topic:t"
config = "retention.ms"
value = "3600000"
trigger = { after = "2s" }

[[steps]]
step = "remove-voter"
target = "controller(101)"

[[steps]]
step = "set-config"
resource = "topic:t"
config = "retention.ms"
value = "7200000"
trigger = { after = "3s" }

[[predictions]]
kafka = ">=3.9"
clause = "KIP-853"
loss = { committed = "none" }
exercised = ["voters-added", "voters-removed", "requests-refused"]
"""


def test_an_observer_becomes_a_voter_and_a_voter_an_observer(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "dynamic-quorum.toml"
    file.write_text(SCENARIO)
    options = LaunchOptions(runs=tmp_path / "runs", runtime="local")
    [(record, verdict)] = run_and_judge(file, "4.3.1", options=options, spark=spark)
    assert verdict.outcome == "as-predicted", verdict.why
    added, _, _, removed, _ = read_steps(RecordFolder(record)) or ()
    assert sorted(added.proof["record"]["voters"]) == ["100", "101", "102"]
    assert sorted(removed.proof["record"]["voters"]) == ["100", "102"]
    lines = (record / QUORUM_FILE).read_bytes().splitlines()
    voters = [msgspec.json.decode(line, type=CommittedBatch).voters for line in lines]
    assert list(dict.fromkeys(voters)) == [(100, 101), (100, 101, 102), (100, 102)]
