"""A record of a run that did not complete has no finding, or one; without one, shrink says why it did not complete."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from replay_records import LOST

from ebbtide.errors import ExitCode, HarnessError, UsageError
from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import failure_keys, read_manifest, write_manifest
from ebbtide.record.steps import read_steps, write_steps
from harness.cli.main import main
from harness.replay.recorded_run import load_run
from harness.runner import launch
from harness.shrink.goal import goal_from_record

DIED = HarnessError("broker-1 ended by itself", where="broker-1", got="exit code 1", next="read logs/broker-1.log")


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LOST, tmp_path / "run"))


def end_as(record: Path, status: Literal["failed", "interrupted"], error: HarnessError | None) -> None:
    keys = {} if error is None else failure_keys(error)
    write_manifest(
        RecordFolder(record), msgspec.structs.replace(read_manifest(RecordFolder(record)), status=status, **keys)
    )


def without_facts(record: Path) -> UsageError:
    recorded = load_run(record)
    assert recorded.verdict is not None
    nothing = msgspec.structs.replace(
        recorded.verdict, losses=(), commits=(), properties=(), anomalies=(), regressions=()
    )
    with pytest.raises(UsageError) as refused:
        goal_from_record(msgspec.structs.replace(recorded, verdict=nothing))
    return refused.value


def test_a_failed_run_without_a_finding_is_refused_with_its_failure(record: Path) -> None:
    end_as(record, "failed", DIED)
    refused = without_facts(record)
    assert refused.what.startswith("the run failed, and until then it showed no loss")
    assert refused.got == "broker-1 ended by itself (broker-1) (exit code 1)"
    assert refused.next == "read logs/broker-1.log"


def test_an_interrupted_run_without_a_finding_is_to_be_run_again(record: Path) -> None:
    end_as(record, "interrupted", None)
    refused = without_facts(record)
    assert refused.what.startswith("the run was interrupted")
    assert (refused.next or "").startswith(f"ebbtide run {record / 'scenario.toml'} --kafka ")


def test_a_complete_run_without_a_finding_has_nothing_to_shrink(record: Path) -> None:
    assert without_facts(record).what.startswith("the record shows no loss")


def test_a_failed_run_with_a_finding_can_be_shrunk(record: Path) -> None:
    end_as(record, "failed", DIED)
    assert goal_from_record(load_run(record)).facts


def test_a_run_that_failed_before_it_began_is_refused_before_it_is_judged(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launch, "prepare", lambda *_: pytest.fail("prepared before"))
    (record / "verdict.json").unlink()
    end_as(record, "failed", DIED)
    write_steps(
        RecordFolder(record),
        [msgspec.structs.replace(step, fired_ns=None) for step in read_steps(RecordFolder(record)) or []],
    )
    for table in RecordFolder(record).files("sends"):
        table.unlink()
    assert main(["shrink", str(record)]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "got:     broker-1 ended by itself (broker-1) (exit code 1)\n" in said
    assert "next:    read logs/broker-1.log\n" in said
