"""When a fault counts as healed, and what the end of a schedule heals: what has ended, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_schedule import Bench

from harness.scenario.model import StepSpec


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_a_paused_node_that_died_to_have_its_volume_mended_is_started_and_not_resumed(bench: Bench) -> None:
    schedule, _ = bench.run(
        StepSpec(step="pause", target="broker(1)"),
        StepSpec(step="read-only", target="broker(1)"),
        StepSpec(step="mend-disk", target="broker(1)"),
    )
    assert schedule.paused == set()
    bench.done.clear()
    schedule.restore()
    assert bench.done == [("start", 1)]
