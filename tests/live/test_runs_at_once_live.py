"""Two releases at once on real Kafka: `ebbtide run --jobs 2` ends as the same runs do one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_state import HostState
from live.commands import ebbtide, records_in

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.verdict import read_verdict

pytestmark = pytest.mark.live


@pytest.mark.slow
def test_two_releases_that_run_in_parallel_end_as_predicted_and_leave_nothing(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    before = HostState.now()
    done = ebbtide("run", "last-replica-standing", "--kafka", "3.9.1,4.3.1", "--jobs", "2", "--runs", runs)
    log = (runs / "runs-of-last-replica-standing.log").read_text()
    assert done.returncode == 0, done.stdout + done.stderr + log
    records = records_in(runs)
    manifests = [read_manifest(RecordFolder(record)) for record in records]
    verdicts = [read_verdict(RecordFolder(record)) for record in records]
    assert sorted(str(one.kafka) for one in manifests) == ["3.9.1", "4.3.1"]
    assert [one and one.outcome for one in verdicts] == ["as-predicted", "as-predicted"]
    first, second = sorted(manifests, key=lambda one: one.start_ns or 0)
    assert (second.start_ns or 0) < (first.end_ns or 0)
    assert all(one.timings_s["steps"] > 0 for one in manifests)
    assert HostState.now().left_since(before, *(record.name for record in records), str(runs)) == []
