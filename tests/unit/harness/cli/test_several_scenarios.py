"""`ebbtide run` with several scenarios: all are checked first, all run, and one table is at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ebbtide import judging_process
from ebbtide.errors import ExitCode, HarnessError
from ebbtide.record.files import RecordFolder
from ebbtide.record.outcomes import AnalyzedRecord
from ebbtide.record.verdict import EXIT_OF_OUTCOME, Outcome, Verdict, write_verdict
from ebbtide.scenario import catalogue
from harness.cli.main import main
from harness.runner import launch, run, side_by_side

ENDS: dict[str, Outcome] = {"one": "as-predicted", "two": "contradicted", "three": "inconclusive"}


class Judge:
    """Stands in for the judging process: each run ends as `ENDS` says."""

    def __init__(self, **_: object) -> None:
        """Take the options of the real one."""

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def begin(self) -> None:
        pass

    def hand_over(self, record: Path) -> None:
        write_verdict(RecordFolder(record), Verdict(run_id=record.name, outcome=ENDS[record.name]))

    def judge(self, record: Path) -> AnalyzedRecord:
        outcome = ENDS[record.name]
        return AnalyzedRecord(record=str(record), outcome=outcome, exit_code=EXIT_OF_OUTCOME[outcome])

    def finish(self) -> None:
        pass

    def is_running(self) -> bool:
        return False


class Host:
    """Makes an empty record of each run, but for those that are `failing`."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.failing: set[str] = set()

    def prepare(self, _options: object, _releases: object, _note: object, _others: object) -> SimpleNamespace:
        def request(scenario: Any, kafka: str, seed: int) -> SimpleNamespace:
            return SimpleNamespace(kafka=kafka, seed=seed, scenario=scenario, runs=Path("runs"))

        return SimpleNamespace(request=request)

    def run(self, request: Any, _display: object, _drive: object) -> Path:
        name = request.scenario.name
        if name in self.failing:
            raise HarnessError("a node ended by itself")
        self.ran.append(name)
        record = Path("runs", name)
        record.mkdir(parents=True)
        return record

    def run_at_once(self, wanted: Iterator[tuple[int, Any]], **_: object) -> Iterator[tuple[int, Any]]:
        yield from side_by_side.run_in_turn(reversed([*wanted]), None, lambda one, _: self.run(one, None, None))  # type: ignore[arg-type]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Host:
    made = Host()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr("cluster.doctor.require_memory", lambda clusters: None)
    monkeypatch.setattr(launch, "check", lambda *_: None)
    monkeypatch.setattr(launch, "prepare", made.prepare)
    monkeypatch.setattr(run, "run_scenario", made.run)
    monkeypatch.setattr(side_by_side, "run_side_by_side", made.run_at_once)
    monkeypatch.setattr(judging_process, "JudgingProcess", Judge)
    Path("mine").mkdir()
    text = catalogue.text_of("healthy")
    for name in ENDS:
        Path("mine", f"{name}.toml").write_text(text.replace('name = "healthy"', f'name = "{name}"', 1))
    return made


def rows(output: str) -> list[Sequence[str]]:
    """The rows of the table at the end, as words."""
    lines = output.splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("scenario "))
    return [line.split() for line in lines[head + 1 :]]


@pytest.mark.parametrize("jobs", [[], ["--jobs", "2"]], ids=["in turn", "at once"])
@pytest.mark.parametrize("words", [["mine"], ["mine/one.toml", "mine/three.toml", "mine/two.toml"]])
def test_every_scenario_runs_and_one_table_has_them_all(
    host: Host, capsys: pytest.CaptureFixture[str], words: list[str], jobs: list[str]
) -> None:
    assert main(["run", *words, "--kafka", "4.3.1", *jobs]) == ExitCode.CONTRADICTED
    assert sorted(host.ran) == sorted(ENDS)
    found = rows(capsys.readouterr().out)
    assert [(row[0], row[1], row[2], row[-1]) for row in found] == [
        (name, "4.3.1", ENDS[name], f"runs/{name}") for name in ("one", "three", "two")
    ]


def test_every_scenario_runs_on_every_release(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.failing = {"one", "three"}
    main(["run", "mine/one.toml", "mine/three.toml", "--kafka", "3.9.1,4.3.1"])
    assert [tuple(row[:3]) for row in rows(capsys.readouterr().out)] == [
        (name, kafka, "failed") for name in ("one", "three") for kafka in ("3.9.1", "4.3.1")
    ]


def test_a_scenario_that_fails_does_not_stop_the_others(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.failing = {"one"}
    assert main(["run", "mine", "--kafka", "4.3.1"]) == ExitCode.HARNESS_FAILED
    assert host.ran == ["three", "two"]
    said = capsys.readouterr()
    assert rows(said.out)[0] == ["one", "4.3.1", "failed", "-", "-", "-"]
    assert "error: a node ended by itself" in said.err


def test_the_mistakes_of_all_files_are_said_before_anything_runs(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        file = Path("mine", f"{name}.toml")
        file.write_text(file.read_text() + "\nwrong = 1\n")
    assert main(["run", "mine", "--kafka", "4.3.1"]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "mine/one.toml" in error
    assert "mine/two.toml" in error
    assert host.ran == []


def test_only_one_scenario_can_keep_its_cluster(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "mine", "--kafka", "4.3.1", "--keep-cluster"]) == ExitCode.USAGE
    assert "3 scenarios" in capsys.readouterr().err
    assert host.ran == []
