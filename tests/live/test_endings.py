"""A run that does not go by the book: nodes killed last."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from live import in_process

from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.scenario import catalogue
from harness.runner.launch import LaunchOptions

pytestmark = pytest.mark.live


def test_a_cluster_whose_leader_was_killed_last_settles_on_what_is_and_not_on_what_was(tmp_path: Path) -> None:
    steps = '[[steps]]\nstep = "kill"\ntarget = "leader(t-0)"\ntrigger = { acked = 2000 }\n\n'
    text = catalogue.text_of("last-replica-standing")
    head, _, rest = text.partition("[[steps]]")
    prediction = rest[rest.index("[[predictions]]") :].replace("elected_from_elr = true\n", "")
    scenario = tmp_path / "killed-last.toml"
    scenario.write_text(head + steps + prediction)
    [record] = in_process.run(scenario, "4.3.1", options=LaunchOptions(runs=tmp_path / "runs", runtime="local"))
    assert read_manifest(RecordFolder(record)).final_consumer is not None
    last = pq.read_table(record / "partitions.parquet").to_pylist()[-1]
    assert sorted(last["isr"]) == [1, 2, 3]
    # The broker that came back was fenced, registered anew and unfenced before the final read.
    assert last["leader_epoch"] > 0
