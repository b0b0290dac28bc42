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


def test_the_death_of_a_node_that_was_restarted_on_a_volume_in_trouble_is_still_expected(bench: Bench) -> None:
    schedule, _ = bench.run(
        StepSpec(step="fill-disk", target="broker(1)"), StepSpec(step="restart", target="followers(t-0)")
    )
    restart = bench.entries()[1]
    assert [(one["step"], *one["nodes"]) for one in restart.proof["parts"]] == bench.done
    assert bench.done == [("stop", 1), ("start", 1), ("stop", 3), ("start", 3)]
    assert schedule.down == {1}


def test_a_node_whose_stop_was_not_clean_is_not_started_by_its_restart(bench: Bench) -> None:
    bench.fails.add("stop")
    schedule, _ = bench.run(StepSpec(step="restart", target="broker(1)"))
    assert (bench.done, schedule.down) == ([("stop", 1)], {1})
    assert bench.entries()[0].why == "it did not"
