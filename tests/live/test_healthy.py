"""The control: full producer speed, no fault, and nothing may be found on any release."""

from __future__ import annotations

from pathlib import Path

import pytest
from live.commands import ebbtide, records_in

from cluster.jars.releases import ensure
from ebbtide.record.verdict import read_verdict

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    "kafka", [*(pytest.param(kafka, marks=pytest.mark.slow) for kafka in ("3.4.1", "3.9.1")), "4.3.1"]
)
def test_nothing_is_found_where_nothing_was_broken(kafka: str, tmp_path: Path) -> None:
    ensure([kafka])
    done = ebbtide("run", "healthy", "--kafka", kafka, "--runs", tmp_path / "runs")
    (record,) = records_in(tmp_path / "runs")
    verdict = read_verdict(record)
    assert verdict is not None
    assert (done.returncode, verdict.outcome) == (0, "as-predicted"), done.stdout + done.stderr
    assert verdict.counts.acked >= 100_000
    assert verdict.anomalies == []
    assert not [one for one in verdict.properties if one.status == "violated"]
