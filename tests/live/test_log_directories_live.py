"""A broker with two log directories goes on when one of them fails, and starts again without it (KIP-858)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from live.in_process import run_and_judge

from ebbtide.record.folder import RecordFolder
from ebbtide.record.steps import read_steps
from harness.runner.launch import LaunchOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.spark]

SCENARIO = """
name = "two-directories"
title = "One of the leader's two directories fails"
kafka = ["4.3.1"]

[cluster]
brokers = 2
log_dirs = 2

[topics.t]
partitions = 2
replication_factor = 2
min_isr = 1
assignment = [[1, 2], [1, 2]]

[[producers]]
id = 1
topic = "t"
rate_per_s = 100

[[steps]]
step = "move-replica"
trigger = { acked = 50 }
partition = "t-0"
target = "broker(1)"
directory = 2
optional = true

[[steps]]
step = "move-replica"
partition = "t-1"
target = "broker(1)"
directory = 1
optional = true

[[steps]]
step = "wait"
trigger = { in_directory = { partition = "t-0", broker = "broker(1)", directory = 2 } }

[[steps]]
step = "wait"
trigger = { in_directory = { partition = "t-1", broker = "broker(1)", directory = 1 } }

[[steps]]
name = "failed"
step = "fail-disk"
target = "broker(1)"
directory = 2

[[steps]]
step = "wait"
trigger = { leader_is = { partition = "t-0", broker = "broker(2)" } }

[[steps]]
step = "wait"
trigger = { leader_is = { partition = "t-1", broker = "broker(1)" } }

[[steps]]
step = "restart"
target = "broker(1)"

[[steps]]
step = "wait"
trigger = { isr = { partition = "t-1", size = 2 } }

[[steps]]
step = "wait"
trigger = { isr = { partition = "t-0", size = 1 } }

[[steps]]
step = "mend-disk"
target = "broker(1)"

[[steps]]
step = "start"
target = "broker(1)"

[[steps]]
step = "wait"
trigger = { isr = { partitions = ["t-0", "t-1"], size = 2 } }

[[predictions]]
kafka = ">=3.7"
clause = "KIP-858"
loss = { committed = "none" }
exercised = ["disks-failed", "action-directory-offline"]
"""


def test_a_broker_leads_from_its_other_directory_while_one_is_dead_and_starts_again_without_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "two-directories.toml"
    file.write_text(SCENARIO)
    options = LaunchOptions(runs=tmp_path / "runs", runtime="local")
    [(record, verdict)] = run_and_judge(file, "4.3.1", options=options, spark=spark)
    assert verdict.outcome == "as-predicted", verdict.why
    (failed,) = (step for step in read_steps(RecordFolder(record)) or () if step.step == "fail-disk")
    assert (failed.whom, failed.proof["directory"]) == ("broker-1, log directory 2", 2)
    assert verdict.coverage["kills"] == 0
