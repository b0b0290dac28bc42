"""A loss that was recorded once is had again, on brokers of other ids."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from live.commands import LOCAL, records_in

from cluster.jars.releases import ensure
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import read_steps
from harness.cli.main import main

pytestmark = [pytest.mark.live, pytest.mark.spark]

LOST = Path(__file__).resolve().parents[1] / "data" / "runs" / "last-replica-standing-3.9.1"


def test_a_recorded_loss_comes_again_by_the_same_cause_on_the_recorded_states_by_truncate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Power is lost by another method than in the record. A property that this release does not know ends nothing."""
    ensure(["3.9.1"])
    recorded = Path(shutil.copytree(LOST, tmp_path / "recorded"))
    scenario = recorded / "scenario.toml"
    table = "[cluster.controller_properties]\n"
    scenario.write_text(scenario.read_text().replace(table, f'{table}"max.decompressed.message.bytes" = "9999"\n'))
    options = ("--seed", "6", "--power-loss", "truncate", "--json", "--runs", str(tmp_path / "runs"), *LOCAL)
    exit_code = main(["replay", str(recorded), *options])
    out, errors = capsys.readouterr()
    assert exit_code == 0, out + errors
    assert "Kafka does not know max.decompressed.message.bytes, and ignores it" in errors
    (release,) = msgspec.json.decode(out)["releases"]
    assert (release["same"], release["times"]) == (1, 1)
    (record,) = records_in(tmp_path / "runs")
    assert read_manifest(RecordFolder(record)).power_loss_method == "truncate"
    assert read_manifest(RecordFolder(record)).replay_of == read_manifest(RecordFolder(recorded)).run_id
    assert read_manifest(RecordFolder(record)).ignored_properties == (
        "cluster.controller_properties.max.decompressed.message.bytes",
    )
    states = [entry.state for entry in read_steps(RecordFolder(record)) or []]
    assert [state["reached"] for state in states] == [True] * 4
    # The leader that lost power in the record was broker 2, and has another name here.
    assert states[2]["awaited"][0] != "t-0 leader none ISR [2]"
