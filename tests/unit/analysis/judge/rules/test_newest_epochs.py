"""newest-epoch-is-in-the-checkpoint: a replica's file has the newest leader epoch of its log."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import checked, judged
from worked_examples import MadeRule, example_of, record_of

from analysis.judge.rules.leaders import newest_epoch_is_in_the_checkpoint as rule
from ebbtide.logs.checkpoint_file import LEADER_EPOCHS

LOG = "broker=2 0=1; broker=2 leader_epoch=1 1=2"


def status(folder: Path, *, epochs: str, log: str = LOG, steps: str = "", file: str | None = None) -> str:
    """What the clause finds; `epochs`: a broker, and the epochs in its file. `file`: the file's text instead."""
    rows = f"Rows.\npartitions: leader=1\nreplicas: {log}\nsteps: {steps}\nsetting: epochs={epochs}\ngives:"
    record_of(example_of(MadeRule(example=rows)), folder / "record")
    if file is not None:
        (folder / "record" / "raw" / "broker-2" / "t-0" / LEADER_EPOCHS).write_text(file)
    return checked(rule, judged(folder / "record")).found.status


def test_the_newest_epoch_of_a_log_is_in_its_file(tmp_path: Path) -> None:
    assert status(tmp_path / "all", epochs="2,0,1") == "holds"
    assert status(tmp_path / "older", epochs="2,1") == "holds"  # the log's start moved
    assert status(tmp_path / "newer", epochs="2,0,1,2") == "holds"  # nothing was appended in epoch 2
    assert status(tmp_path / "lacks", epochs="2,0") == "violated"


def test_a_file_as_kafka_makes_it_has_no_epoch(tmp_path: Path) -> None:
    assert status(tmp_path, epochs="2,0", file="") == "violated"


@pytest.mark.parametrize("step", ["power-loss", "torn-write", "fail-disk", "wipe-disk"])
def test_a_step_on_the_brokers_disk_leaves_it_unknown(tmp_path: Path, step: str) -> None:
    assert status(tmp_path / "its", epochs="2,0", steps=f"step={step} nodes=2 at=30") == "unknown"
    assert status(tmp_path / "another", epochs="2,0", steps=f"step={step} nodes=3 at=30") == "violated"


@pytest.mark.parametrize(
    ("epochs", "file"),
    [("3,0", None), ("2,0", "0\n2\n0 0\n"), ("2,0", "1\n1\n0 0\n"), ("2,0", "0\n1\nnothing\n")],
    ids=["no-file", "cut-off", "another-version", "no-epoch"],
)
def test_without_a_file_that_can_be_read_nothing_is_compared(tmp_path: Path, epochs: str, file: str | None) -> None:
    assert status(tmp_path, epochs=epochs, file=file) == "not-exercised"


def test_a_log_without_records_has_no_newest_epoch(tmp_path: Path) -> None:
    assert status(tmp_path, epochs="2,0", log="broker=3 0=1") == "not-exercised"
