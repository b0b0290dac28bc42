"""bench.random_guidance runs guided and unguided schedules of the same seeds, and continues after a kill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from replay_records import LOST

from bench import random_guidance
from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.record.folder import RecordFolder
from ebbtide.record.verdict import Verdict, read_verdict
from ebbtide.scenario.model import Scenario
from harness.runner.run import RunRequest

Key = tuple[random_guidance.Arm, Scenario]
REACHED = {"elr-of-two": 2, "kills": 5}


@pytest.fixture
def played_runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The arm and seed of each run, which nothing carries out: guided ones reach an ELR of two, the others fail."""
    seen: list[tuple[str, int]] = []

    def carry_out(
        wanted: Iterable[tuple[Key, RunRequest]], *, at_once: int, log: Path
    ) -> Iterator[tuple[Key, Path | EbbtideError]]:
        for key, _request in wanted:
            arm, scenario = key
            seen.append((arm.name, int(scenario.name.removeprefix("random-"))))
            yield key, LOST if arm.name == "guided" else HarnessError("no space", where="/", next="make room")

    def judge(records: Sequence[Path]) -> dict[Path, Verdict | EbbtideError]:
        verdict = read_verdict(RecordFolder(LOST))
        assert verdict is not None
        return {record: msgspec.structs.replace(verdict, coverage=REACHED) for record in records}

    monkeypatch.setattr(random_guidance, "run_side_by_side", carry_out)
    monkeypatch.setattr(random_guidance, "judge_together", lambda _session, records: judge(records))
    monkeypatch.setattr(random_guidance, "check", lambda *_: None)
    monkeypatch.setattr(random_guidance, "prepare", lambda *_: SimpleNamespace(request=lambda *_: None))
    return seen


def compare_arms(store: Path, monkeypatch: pytest.MonkeyPatch, *flags: str) -> None:
    monkeypatch.setattr("sys.argv", ["random_guidance", str(store), "--seed", "7", *flags])
    assert random_guidance.main() == 0


def test_each_round_is_a_run_of_each_arm_of_one_seed_and_the_next_command_goes_on(
    tmp_path: Path, played_runs: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_arms(tmp_path, monkeypatch, "--rounds", "1")
    compare_arms(tmp_path, monkeypatch, "--rounds", "2")
    compare_arms(tmp_path, monkeypatch, "--rounds", "2")
    compare_arms(tmp_path, monkeypatch, "--rounds", "3", "--budget-s", "0")
    assert played_runs == [("guided", 7), ("unguided", 7), ("guided", 8), ("unguided", 8)]
