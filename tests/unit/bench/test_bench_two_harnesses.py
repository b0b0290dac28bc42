"""bench.two_harnesses says which runs of two nights should not have ended as they did, and what grew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bench.two_harnesses import Harness, Sample, findings_of
from harness.nightly.job import Job, ReleaseTarget
from harness.nightly.store import FinishedJob, JobEnd


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with psutil.Popen(["true"]) as process:
        process.wait()
        yield Harness(name="here", process=process, store=tmp_path / "store")


def finished(ended: JobEnd, *why: str, known_bug: str | None = None) -> FinishedJob:
    job = Job(scenario="healthy", target=ReleaseTarget(kafka="4.3.1"), runtime="local", number=1)
    return FinishedJob(night="n", job=job, run_id=None, ended=ended, why=why, known_bug=known_bug)


def samples_with(descriptors: list[int]) -> list[Sample]:
    return [
        Sample(night_mib=1, night_descriptors=n, all_mib=1, all_descriptors=n, processes=1, disk_mib=1)
        for n in descriptors
    ]


@pytest.mark.parametrize(
    ("job", "is_found"),
    [
        (finished("as-predicted"), False),
        (finished("contradicted", "a committed record is lost"), True),
        (finished("contradicted", "a committed record is lost", known_bug="KAFKA-1"), False),
        (finished("inconclusive", "something outside of the run changed the kernel's write-back to ..."), False),
        (finished("failed", "a node died"), True),
    ],
)
def test_only_what_the_other_night_may_do_is_no_finding(harness: Harness, job: FinishedJob, is_found: bool) -> None:
    assert bool(findings_of(harness, samples_with([20] * 9), [job])) is is_found


def test_descriptors_that_grow_are_a_finding(harness: Harness) -> None:
    found = findings_of(harness, samples_with([20, 20, 30, 30, 40, 40]), [finished("as-predicted")])
    assert found == ["here: the night's descriptors grew by 20"]


@pytest.mark.parametrize(
    ("script", "is_found"),
    [("exit 0", False), ("exit 2", False), ("exit 3", True), ("exit 4", True), ("kill $$", True)],
)
def test_a_night_that_did_not_come_to_its_end_is_a_finding(tmp_path: Path, script: str, is_found: bool) -> None:
    with psutil.Popen(["sh", "-c", script]) as process:
        process.wait()
    ended = Harness(name="here", process=process, store=tmp_path / "store")
    found = findings_of(ended, samples_with([20] * 9), [finished("as-predicted")])
    assert bool(found) is is_found
    assert all(f"exit code {process.returncode}" in one for one in found)
