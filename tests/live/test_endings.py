"""How runs end that do not go by the book: nodes killed last, a reader that goes away, an interrupted judgement."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from live.commands import command, ebbtide, records_in

from ebbtide.record.manifest import read_manifest
from ebbtide.record.verdict import read_verdict
from ebbtide.scenario import catalogue

pytestmark = pytest.mark.live


def test_a_cluster_whose_leader_was_killed_last_settles_on_what_is_and_not_on_what_was(tmp_path: Path) -> None:
    steps = '[[steps]]\nstep = "kill"\ntarget = "leader(t-0)"\ntrigger = { acked = 2000 }\n\n'
    text = catalogue.text_of("last-replica-standing")
    head, _, rest = text.partition("[[steps]]")
    prediction = rest[rest.index("[[predictions]]") :].replace("elected_from_elr = true\n", "")
    scenario = tmp_path / "killed-last.toml"
    scenario.write_text(head + steps + prediction)
    ebbtide("run", scenario, "--kafka", "4.3.1", "--runs", tmp_path / "runs")
    (record,) = records_in(tmp_path / "runs")
    assert read_manifest(record).final_consumer is not None
    last = pq.read_table(record / "partitions.parquet").to_pylist()[-1]
    assert sorted(last["isr"]) == [1, 2, 3]
    # The broker that came back was fenced, registered anew and unfenced before the final read.
    assert last["leader_epoch"] > 0


@pytest.mark.slow
def test_a_run_goes_on_when_the_reader_of_its_output_is_gone(tmp_path: Path) -> None:
    run = subprocess.Popen(
        command("run", "last-replica-standing", "--kafka", "4.3.1", "--runs", tmp_path / "runs"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.readline()
    run.stdout.close()
    assert run.wait(180) == 0, run.stderr.read()
    run.stderr.close()
    (record,) = records_in(tmp_path / "runs")
    verdict = read_verdict(record)
    assert verdict is not None
    assert verdict.outcome == "as-predicted"
