"""Reads the runs of the catalogue from a folder of records, as a night's history would have them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest, records_of
from ebbtide.record.verdict import read_judgement
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import load
from ebbtide.scenario.write import SCENARIO
from harness.nightly.job import Job, ReleaseTarget, Runtime
from harness.nightly.night import judged_job
from harness.nightly.store import FinishedJob


def finished_jobs(folder: Path) -> Iterator[FinishedJob]:
    """Yield the complete runs of shipped scenarios in a folder; replays are left out.

    Raises `UsageError` for a record that has not been judged.
    """
    names = set(catalogue.names())
    for record in records_of(folder):
        manifest = read_manifest(RecordFolder(record))
        if manifest.scenario not in names or manifest.status != "complete" or manifest.replay_of is not None:
            continue
        shipped, as_run = catalogue.find(manifest.scenario).cluster, load(record / SCENARIO).cluster
        if as_run.formed_on != shipped.formed_on:
            continue  # `--upgrade`: another experiment
        fixed, asked = shipped.features, as_run.features
        levels = {name: level for name, level in asked.items() if name not in fixed}
        job = Job(
            scenario=manifest.scenario,
            target=ReleaseTarget(kafka=manifest.kafka, features=levels),
            runtime=msgspec.convert(manifest.runtime, Runtime),
            number=1,
        )
        done = judged_job("", job, RecordFolder(record), read_judgement(RecordFolder(record)))
        yield msgspec.structs.replace(done, ended_at_s=(manifest.end_ns or 0) / 1e9)
