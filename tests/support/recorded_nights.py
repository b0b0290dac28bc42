"""Nights made from recorded runs: each run is in most of the nights, with its own verdict and report."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.verdict import read_judgement
from harness.nightly.job import Job, ReleaseTarget
from harness.nightly.night import judged_job
from harness.nightly.store import FinishedJob, Store


def store_of_nights(folder: Path, records: Sequence[Path], nights: int = 10) -> Store:
    """Return a store in which the judged records ran night after night; a night leaves some out."""
    store = Store(folder)
    for at, record in enumerate(records):
        shutil.copytree(record, store.runs / record.name, dirs_exist_ok=True)
        for night in range(nights):
            if (night + at) % 5 != 3:
                store.append_job(_finished(record, f"202611{10 + night:02}T020000"))
    return store


def _finished(record: Path, night: str) -> FinishedJob:
    manifest = read_manifest(RecordFolder(record))
    job = Job(scenario=manifest.scenario, target=ReleaseTarget(kafka=manifest.kafka), runtime="local", number=1)
    return judged_job(night, job, RecordFolder(record), read_judgement(RecordFolder(record)))
