"""One cluster of two brokers with two log directories each, and a dynamic quorum of three controllers.

A broker goes on when a directory fails, and starts again without it (KIP-858). An observer becomes a voter, and another
voter an observer (KIP-853). All clocks go back an hour. Last a leader is killed, and the cluster settles on what is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow.parquet as pq
import pytest
from live.clocks_back import check_clocks_went_back
from live.in_process import JudgedRecord, run_and_judge

from ebbtide.kraft.commits import CommittedBatch
from ebbtide.record.files import QUORUM_FILE, RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import StepEntry, read_steps
from harness.runner.launch import LaunchOptions

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark

pytestmark = [pytest.mark.live, pytest.mark.spark]

SCENARIO = """
name = "quorum-and-directories"
title = "A directory fails, voters change, and a leader is killed last"
kafka = ["4.3.1"]

[cluster]
brokers = 2
log_dirs = 2
controllers = 3
quorum = "dynamic"
initial_voters = 2
# With the default of 25 ms, a clock that goes back while the controller waits for more records stops it for an hour.
controller_properties = { "controller.quorum.append.linger.ms" = "0" }

[topics.t]
partitions = 2
replication_factor = 2
min_isr = 1
assignment = [[1, 2], [1, 2]]
config = { "message.timestamp.type" = "LogAppendTime" }

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

[[steps]]
step = "add-voter"
target = "controller(102)"

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

[[steps]]
step = "set-clock"
offset = "-1h"

[[steps]]
step = "reset-clock"
trigger = { after = "2s" }

[[steps]]
name = "last"
step = "kill"
target = "leader(t-0)"

[[predictions]]
kafka = ">=3.9"
clause = "KIP-853 and KIP-858"
loss = { committed = "none" }
exercised = [
    "action-directory-offline", "clocks-set", "disks-failed", "requests-refused", "voters-added", "voters-removed"
]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, spark_if_needed: Spark) -> JudgedRecord:
    folder = tmp_path_factory.mktemp("run")
    file = folder / "quorum-and-directories.toml"
    file.write_text(SCENARIO)
    [judged] = run_and_judge(
        file, "4.3.1", options=LaunchOptions(runs=folder / "runs", runtime="local"), spark=spark_if_needed
    )
    assert judged.verdict.outcome == "as-predicted", judged.verdict.why
    return judged


def steps_of(run: JudgedRecord, kind: str) -> list[StepEntry]:
    return [step for step in read_steps(RecordFolder(run.record)) or () if step.step == kind]


def test_a_broker_leads_from_its_other_directory_while_one_is_dead_and_starts_again_without_it(
    run: JudgedRecord,
) -> None:
    (failed,) = steps_of(run, "fail-disk")
    assert (failed.whom, failed.proof["directory"]) == ("broker-1, log directory 2", 2)
    assert run.verdict.coverage["kills"] == 1, "the one that was asked for"


def test_an_observer_becomes_a_voter_and_a_voter_an_observer(run: JudgedRecord) -> None:
    (added, _), (removed,) = steps_of(run, "add-voter"), steps_of(run, "remove-voter")
    assert sorted(added.proof["record"]["voters"]) == ["100", "101", "102"]
    assert sorted(removed.proof["record"]["voters"]) == ["100", "102"]
    lines = (run.record / QUORUM_FILE).read_bytes().splitlines()
    voters = [msgspec.json.decode(line, type=CommittedBatch).voters for line in lines]
    assert list(dict.fromkeys(voters)) == [(100, 101), (100, 101, 102), (100, 102)]


def test_clocks_that_go_back_change_kafkas_times_and_not_those_of_the_run(run: JudgedRecord) -> None:
    (back,), (right,) = steps_of(run, "set-clock"), steps_of(run, "reset-clock")
    check_clocks_went_back(run.record, back, right, broker=2)


def test_a_cluster_whose_leader_was_killed_last_settles_on_what_is_and_not_on_what_was(run: JudgedRecord) -> None:
    assert read_manifest(RecordFolder(run.record)).final_consumer is not None
    (kill,) = steps_of(run, "kill")
    rows = [row for row in pq.read_table(run.record / "partitions.parquet").to_pylist() if row["partition"] == 0]
    before, last = [row for row in rows if row["at_ns"] < kill.fired_ns][-1], rows[-1]
    assert sorted(last["isr"]) == [1, 2]
    # The broker that came back was fenced, registered anew and unfenced before the final read.
    assert last["leader_epoch"] > before["leader_epoch"]
