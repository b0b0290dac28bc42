"""docs/measurements.md says what replays showed: of one run a scenario, how often it came again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from replay_records import LOST

from ebbtide.errors import HarnessError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest, write_manifest
from ebbtide.record.verdict import Outcome, write_verdict
from harness.replay.compare import Departure, Repetition
from harness.replay.recorded_run import load_run
from harness.replay.replaying import JudgeAll, Replay
from tools.pages import replays
from tools.pages.measurements import section
from tools.pages.replays import (
    ReplayResults,
    choose_records,
    main,
    measured,
    merge_results,
    row,
)

DEPARTURE = Departure(what="states of t-0", at_ns=7, after_step=2, recorded="leader 1", replayed="leader 2")


def write_run(
    runs: Path,
    scenario: str,
    run_id: str,
    outcome: Outcome = "as-predicted",
    *,
    lost: bool = False,
    replay_of: str | None = None,
) -> None:
    """A judged record among `runs`."""
    manifest = msgspec.structs.replace(
        read_manifest(RecordFolder(LOST)), run_id=run_id, scenario=scenario, replay_of=replay_of
    )
    verdict = load_run(LOST).verdict
    assert verdict is not None
    (runs / run_id).mkdir(parents=True)
    write_manifest(RecordFolder(runs / run_id), manifest)
    losses = verdict.losses if lost else []
    write_verdict(RecordFolder(runs / run_id), msgspec.structs.replace(verdict, outcome=outcome, losses=losses))


def replay(*, same: bool, share: float, departures: tuple[Departure, ...] = ()) -> Replay:
    repetition = Repetition(states=share, effects=share, verdict=share, same=same, naming={}, departures=departures)
    return Replay(kafka="4.0.2", run=load_run(LOST), repetition=repetition)


def results_of(scenario: str, *, same: int) -> ReplayResults:
    return ReplayResults(
        scenario=scenario,
        runs=("r",),
        release="4.3.1",
        dates=("d",),
        recorded="",
        times=20,
        same=same,
        fidelity=1.0,
        departed=(),
    )


class FakeMeasure:
    """In the place of `measure`: every replay is the same. `asked` has what it was called for."""

    def __init__(self, *, failing: str | None = None) -> None:
        self.failing = failing
        self.asked: list[tuple[str, int]] = []

    def __call__(self, record: Path, folder: Path, times: int, keep: Path | None, judge: JudgeAll) -> ReplayResults:
        self.asked.append((record.name, times))
        if record.name == self.failing:
            raise HarnessError("no space", where=str(record))
        return msgspec.structs.replace(results_of(record.name, same=times), runs=(record.name,), times=times)

    @property
    def records(self) -> list[str]:
        """The records that it was called for, in order."""
        return [name for name, _ in self.asked]


def section_of(rows: list[ReplayResults]) -> str:
    """The section of these results on the page."""
    return section(measured(rows))


def test_a_run_that_lost_records_as_predicted_is_replayed_rather_than_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path, "first-partition", "1-odd", "inconclusive", lost=True)
    write_run(tmp_path, "first-partition", "2-lost", lost=True)
    write_run(tmp_path, "first-partition", "3-saved")
    write_run(tmp_path, "healthy", "4-old")
    write_run(tmp_path, "healthy", "5-new")
    write_run(tmp_path, "random-7", "6-random", lost=True)
    write_run(tmp_path, "healthy", "7-replay", lost=True, replay_of="4-old")
    write_run(tmp_path, "isr-churn", "8-proved-nothing", "inconclusive")
    (tmp_path / "9-cut").mkdir()
    (tmp_path / "9-cut" / "manifest.json").write_text("{")
    assert {name: record.name for name, record in choose_records(tmp_path).items()} == {
        "first-partition": "2-lost",
        "healthy": "5-new",
    }
    assert "9-cut" in capsys.readouterr().err
    assert choose_records(tmp_path, {"4-old"})["healthy"].name == "4-old"


def test_replays_with_another_finding_are_listed_with_where_they_departed_and_failed_ones_are_not_counted() -> None:
    found = row(
        load_run(LOST),
        [
            replay(same=True, share=1.0),
            replay(same=False, share=0.5, departures=(DEPARTURE,)),
            Replay(kafka="4.0.2", failure="no space"),
        ],
        "2026-01-01",
    )
    assert (found.times, found.same, found.fidelity) == (2, 1, 0.75)
    text = section_of([found])
    assert "- Replays: 2; the same: 1\n" in text
    assert "; after step 2, states of t-0: recorded leader 1; replayed leader 2\n" in text


def test_replays_of_several_days_add_up_and_those_of_another_finding_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    first, then = (
        results_of("a", same=20),
        msgspec.structs.replace(results_of("a", same=3), runs=("s",), dates=("e",), times=5, fidelity=0.5),
    )
    both = merge_results(first, then)
    assert (both.times, both.same, both.fidelity, both.runs) == (25, 23, 0.9, ("r", "s"))
    assert merge_results(first, msgspec.structs.replace(then, recorded="another loss")).times == 5
    assert "the 20 before are dropped" in capsys.readouterr().err


def test_the_scenario_with_the_fewest_replays_is_next(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "measure", measuring := FakeMeasure())
    assert main([str(runs), "--times", "3", "--each", "2"]) == 0
    assert measuring.asked == [("first-partition", 2), ("healthy", 2), ("first-partition", 1), ("healthy", 1)]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records of two scenarios; what is measured goes to a folder of its own."""
    monkeypatch.setattr(replays, "MEASURED", tmp_path / "replayed.json")
    for scenario in ("first-partition", "healthy"):
        write_run(tmp_path / "runs", scenario, scenario)
    return tmp_path / "runs"
