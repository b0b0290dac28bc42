"""docs/scenarios.md and the pages of the scenarios say what the scenario files say, and what runs showed."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from checkout import ROOT

from ebbtide.errors import UsageError
from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import read_manifest, write_manifest
from ebbtide.scenario import catalogue
from harness.nightly.job import Job, ReleaseTarget
from harness.nightly.store import FinishedJob, JobEnd
from tools.pages.catalogue import INDEX, PAGES, index, measurements_of, page, read_stored, scenarios
from tools.pages.recorded_runs import finished_jobs


def finished_job(ended: JobEnd, number: int, **causes: int) -> FinishedJob:
    job = Job(scenario="healthy", target=ReleaseTarget(kafka="4.3.1"), runtime="local", number=number)
    return FinishedJob(night="n", job=job, run_id=f"r{number}", ended=ended, causes=causes, took_s=10.0 * number)


def test_the_index_and_the_pages_are_those_of_the_files() -> None:
    assert INDEX.read_text() == index(scenarios(), read_stored()), "python -m tools.pages.catalogue"
    written = {path.stem: path.read_text() for path in PAGES.iterdir()}
    assert written == {one.name: page(one, read_stored()) for one in scenarios()}, "python -m tools.pages.catalogue"


def test_repetitions_are_one_row_and_failures_of_the_host_are_none() -> None:
    [row] = measurements_of(
        [finished_job("as-predicted", 1), finished_job("contradicted", 2, unexplained=1_000), finished_job("failed", 9)]
    )
    assert row.outcomes == {"as-predicted": 1, "contradicted": 1}
    assert row.lost == ("1,000 unexplained", "none")
    assert row.took_s == 15.0
    text = page(catalogue.find("healthy"), [row])
    assert "| 4.3.1 | local | 1 as-predicted, 1 contradicted | 1,000 unexplained; none | 15 |" in text


def test_a_lost_commit_of_a_group_is_a_loss() -> None:
    lost = msgspec.structs.replace(finished_job("as-predicted", 1), commits={"unclean-election": 1})
    assert measurements_of([lost])[0].lost == ("1 commit of a group: unclean-election",)


def recorded(folder: Path, release: str, name: str) -> Path:
    """A judged run of last-replica-standing from the tests' data."""
    return Path(shutil.copytree(ROOT / "tests" / "data" / "runs" / f"last-replica-standing-{release}", folder / name))


def test_records_of_single_runs_count_like_those_of_a_night(tmp_path: Path) -> None:
    recorded(tmp_path, "3.9.1", "a")
    recorded(tmp_path, "4.3.1", "b")
    old, new = measurements_of(finished_jobs(tmp_path))
    assert (old.scenario, old.target, old.runtime, old.outcomes) == (
        "last-replica-standing",
        "3.9.1",
        "local",
        {"as-predicted": 1},
    )
    assert (old.lost, new.lost) == (("2,000 last-replica-standing",), ("none",))
    assert old.date.startswith("20")
    assert old.took_s > 5


def test_replays_interrupted_runs_and_scenarios_of_a_user_are_not_counted(tmp_path: Path) -> None:
    for name, changed in (
        ("replay", {"replay_of": "another"}),
        ("interrupted", {"status": "interrupted"}),
        ("own", {"scenario": "my-own"}),
    ):
        record = recorded(tmp_path, "4.3.1", name)
        write_manifest(RecordFolder(record), msgspec.structs.replace(read_manifest(RecordFolder(record)), **changed))
    assert list(finished_jobs(tmp_path)) == []


def test_a_record_that_was_not_judged_is_refused(tmp_path: Path) -> None:
    (recorded(tmp_path, "4.3.1", "r") / "verdict.json").unlink()
    with pytest.raises(UsageError, match="has not been judged"):
        list(finished_jobs(tmp_path))
