"""What the verbs that run clusters share: check, prepare, run, judge, in this order."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from analysis.spark import java_start
from cluster import doctor
from ebbtide import judging_process
from ebbtide.errors import ExitCode, HarnessError, Problems, UsageError
from ebbtide.record.outcomes import AnalyzedRecord
from ebbtide.record.verdict import VERDICT, Verdict
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import parse
from ebbtide.scenario.write import text_of
from harness.cli import runs_compare
from harness.cli.main import main
from harness.cli.option_values import with_features
from harness.runner import launch, run, side_by_side

RUN = ["run", "healthy", "--kafka", "3.9.1,4.3.1", "--seed", "7"]


class World:
    """Says what was done, in order; runs of `failing` releases fail."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failing: set[str] = set()
        self.broken: set[str] = set()

    def check(self, _wanted: object, scenario: Any, releases: Sequence[str]) -> None:
        self.done.append(f"check {scenario.name} on {' '.join(releases)}")

    def prepare(self, _wanted: object, releases: Sequence[str], _note: object, _others: object) -> SimpleNamespace:
        self.done.append(f"prepare {' '.join(releases)}")
        return SimpleNamespace(
            request=lambda scenario, kafka, seed: SimpleNamespace(
                kafka=kafka, seed=seed, scenario=scenario, runs=Path("runs")
            )
        )

    def run(self, request: Any, display: Any, drive: object) -> Path:
        if request.kafka in self.failing:
            raise HarnessError("a node ended by itself")
        self.done.append(f"run {request.kafka} with seed {request.seed}")
        return Path(f"runs/{request.kafka}")

    def run_at_once(
        self, wanted: Iterable[tuple[int, Any]], *, at_once: int, log: Path, on_note: Callable[[int, str], object]
    ) -> Iterator[tuple[int, Any]]:
        """Ends the last one first, as a short run beside a long one."""
        self.done.append(f"{at_once} at once, into {log}")
        for at, request in reversed([*wanted]):
            if request.kafka in self.failing:
                yield at, HarnessError("a node ended by itself")
            else:
                self.done.append(f"run {request.kafka} with seed {request.seed}")
                on_note(at, "prepare: 1.0 s")
                yield at, Path(f"runs/{request.kafka}")


class StandIn:
    """A judging process that says what it gets; it ends with its block.

    Its answers are failures, except for records that have a verdict. It has `broken` releases, with which it fails.
    """

    def __init__(self, done: list[str], broken: set[str]) -> None:
        self._done, self._broken = done, broken

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *error: object) -> None:
        self._done.append("judging ends at once" if error[0] is not None else "judging ends")

    def begin(self) -> None:
        self._done.append("judging begins")
        if "all" in self._broken:
            raise HarnessError("the judging process does not start")

    def is_running(self) -> bool:
        return "all" not in self._broken

    def finish(self) -> None:
        self._done.append("judging may end")

    def hand_over(self, record: Path) -> None:
        self._done.append(f"hand over {record}")
        if "all" in self._broken:
            raise HarnessError("the judging process does not start")

    def judge(self, record: Path) -> AnalyzedRecord:
        self._done.append(f"judge {record}")
        if self._broken & {"all", record.name}:
            raise HarnessError("the judging process ended twice with this record", where=str(record))
        if (record / VERDICT).exists():
            return AnalyzedRecord(record=str(record), outcome="as-predicted", exit_code=0)
        return AnalyzedRecord(record=str(record), exit_code=1, failure="no tables")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(launch, "check", made.check)
    monkeypatch.setattr(launch, "prepare", made.prepare)
    monkeypatch.setattr(run, "run_scenario", made.run)
    monkeypatch.setattr(side_by_side, "run_side_by_side", made.run_at_once)
    monkeypatch.setattr(judging_process, "JudgingProcess", lambda **_: StandIn(made.done, made.broken))
    monkeypatch.setattr(runs_compare, "print_comparison", lambda records: None)
    monkeypatch.setattr(java_start, "is_first_session", lambda: False)
    return made


def test_everything_is_checked_then_prepared_then_run_then_judged(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(RUN) == ExitCode.CONTRADICTED
    assert world.done == [
        "check healthy on 3.9.1 4.3.1",
        "prepare 3.9.1 4.3.1",
        "judging begins",
        "run 3.9.1 with seed 7",
        "hand over runs/3.9.1",
        "run 4.3.1 with seed 7",
        "hand over runs/4.3.1",
        "judge runs/3.9.1",
        "judge runs/4.3.1",
        "judging may end",
        "judging ends",
    ]
    assert "error: runs/4.3.1: no tables" in capsys.readouterr().err


def test_a_judging_process_that_does_not_start_ends_no_run(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.broken = {"all"}
    assert main(RUN) == ExitCode.HARNESS_FAILED
    assert [line for line in world.done if line.startswith("run ")] == [
        "run 3.9.1 with seed 7",
        "run 4.3.1 with seed 7",
    ]
    assert capsys.readouterr().err.count("error: ") == 2


def test_a_record_with_which_judging_ends_does_not_hide_the_others(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.broken = {"3.9.1"}
    safe = Path("runs/4.3.1")
    safe.mkdir(parents=True)
    (safe / VERDICT).write_bytes(msgspec.json.encode(Verdict(run_id="saved", outcome="as-predicted")))
    assert main([*RUN, "--json"]) == ExitCode.HARNESS_FAILED
    said = capsys.readouterr()
    assert "ended twice with this record" in said.err
    assert json.loads(said.out)["run_id"] == "saved"


def test_records_that_are_not_to_be_judged_are_named_and_prove_nothing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--no-judge"]) == ExitCode.INCONCLUSIVE
    assert not any("judg" in line and line != "judging ends" for line in world.done)
    assert "not judged; next: ebbtide analyze runs/3.9.1 runs/4.3.1\n" in capsys.readouterr().out
    assert main([*RUN, "--no-judge", "--json"]) == ExitCode.INCONCLUSIVE
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["run_id"], one["outcome"]) for one in lines] == [("3.9.1", "inconclusive"), ("4.3.1", "inconclusive")]


@pytest.mark.parametrize(("release", "noted"), [("4.3.1", True), ("3.7.2", False)])
def test_a_release_without_a_prediction_is_named_before_the_run(
    world: World, capsys: pytest.CaptureFixture[str], release: str, noted: bool
) -> None:
    assert main(["run", "kafka-15583", "--kafka", release, "--seed", "7"]) == ExitCode.CONTRADICTED
    said = capsys.readouterr().out
    assert (f"kafka-15583 predicts nothing for Kafka {release}: the run is judged by the protocol" in said) is noted
    assert f"run {release} with seed 7" in world.done


def test_a_release_that_fails_does_not_end_the_others(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.failing = {"3.9.1"}
    assert main(RUN) == ExitCode.HARNESS_FAILED
    assert "judge runs/4.3.1" in world.done
    assert "error: a node ended by itself" in capsys.readouterr().err
    world.failing = {"3.9.1", "4.3.1"}
    assert main(RUN) == ExitCode.HARNESS_FAILED
    assert "ebbtide analyze" not in capsys.readouterr().out


def test_what_cannot_be_run_is_refused_before_anything_is_prepared(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("no such release")

    monkeypatch.setattr(launch, "check", refuse)
    assert main(RUN) == ExitCode.USAGE
    assert world.done == []


@pytest.fixture
def _roomy_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "require_memory", lambda clusters: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})


@pytest.mark.usefixtures("_roomy_host")
def test_releases_that_run_at_once_are_judged_as_they_end_and_shown_in_the_order_typed(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--jobs", "2"]) == ExitCode.CONTRADICTED
    assert world.done[2:] == [
        "judging begins",
        "2 at once, into runs/runs-of-healthy.log",
        "run 4.3.1 with seed 7",
        "hand over runs/4.3.1",
        "run 3.9.1 with seed 7",
        "hand over runs/3.9.1",
        "judge runs/3.9.1",
        "judge runs/4.3.1",
        "judging may end",
        "judging ends",
    ]
    said = capsys.readouterr().out
    assert "running 2 releases at once; their output goes to runs/runs-of-healthy.log" in said
    assert "Kafka 4.3.1: prepare: 1.0 s" in said
    assert Path("runs/runs-of-healthy.log").read_text().endswith(" UTC: Kafka 3.9.1, Kafka 4.3.1\n")


@pytest.mark.usefixtures("_roomy_host")
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--jobs", "0"], ExitCode.USAGE, "--jobs"),
        (["--jobs", "3"], ExitCode.HARNESS_FAILED, "too few CPU cores for 3 clusters at once"),
        (["--jobs", "2", "--witness", "spark"], ExitCode.USAGE, "a witness reads one run at a time"),
    ],
)
def test_more_runs_at_once_than_this_host_can_have_are_one_error(
    world: World, capsys: pytest.CaptureFixture[str], words: list[str], code: ExitCode, told: str
) -> None:
    assert main([*RUN, *words]) == code
    assert told in capsys.readouterr().err
    assert world.done == []


def test_less_memory_than_the_clusters_take_is_one_error(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "free_memory", lambda: 1 << 20)
    assert main([*RUN, "--jobs", "2"]) == ExitCode.HARNESS_FAILED
    assert "too little memory for 2 clusters at once" in capsys.readouterr().err
    assert world.done == []


# `ebbtide run --feature NAME=LEVEL`: levels to format with, over the scenario's own.


ELR = "eligible.leader.replicas.version"


def test_levels_are_set_over_the_scenarios_own_and_stand_in_the_scenario_as_run() -> None:
    healthy = catalogue.find("healthy")
    own = msgspec.structs.replace(
        healthy, cluster=msgspec.structs.replace(healthy.cluster, features={ELR: 1, "group.version": 1})
    )
    changed = with_features(own, [f"{ELR}=0", "transaction.version=2"])
    assert changed.cluster.features == {ELR: 0, "group.version": 1, "transaction.version": 2}
    as_run = msgspec.structs.replace(changed, kafka=("4.3.1",))
    assert parse(text_of(as_run), file="scenario.toml").cluster.features == changed.cluster.features
    assert msgspec.structs.replace(changed, cluster=own.cluster) == own


def test_all_words_that_are_no_level_are_reported_at_once() -> None:
    with pytest.raises(Problems) as caught:
        with_features(catalogue.find("healthy"), ["eligible.leader.replica=1", ELR, f"{ELR}=-1", "kraft.version="])
    told = [one.render() for one in caught.value.problems]
    assert len(told) == 4
    assert "unknown feature" in told[0]
    assert ELR in told[0]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("elr", ELR),
        ("tv2", "transaction.version"),
        ("mv", "metadata.version"),
        ("kraft.versoin", "kraft.version"),
        ("eligible.leader.replica.version", ELR),
        ("nope.version", None),
        ("xyz", None),
    ],
)
def test_an_unknown_feature_suggests_the_one_that_was_meant(name: str, meant: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        with_features(catalogue.find("healthy"), [f"{name}=1"])
    told = caught.value.render()
    assert (f"(did you mean '{meant}'?)" in told) if meant else ("did you mean" not in told)


def test_a_feature_that_the_release_does_not_have_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "healthy", "--kafka", "3.9.1", "--feature", f"{ELR}=1"]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "Kafka 3.9.1 cannot be formatted with this level" in told
    assert f"got:     {ELR} = 1" in told


def test_a_random_schedule_runs_in_the_same_order(world: World) -> None:
    assert main(["random", "--seed", "7", "--kafka", "4.3.1", "--run"]) == ExitCode.CONTRADICTED
    assert [line.split()[0] for line in world.done[:4]] == ["check", "prepare", "judging", "run"]
    assert world.done[-3:] == ["judge runs/4.3.1", "judging may end", "judging ends"]


@pytest.mark.usefixtures("_roomy_host")
def test_a_log_of_runs_at_once_that_cannot_be_written_is_one_error(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("runs/runs-of-healthy.log").mkdir(parents=True)
    assert main([*RUN, "--jobs", "2"]) == ExitCode.HARNESS_FAILED
    error = capsys.readouterr().err
    assert "the log of runs at once cannot be written" in error
    assert "runs/runs-of-healthy.log" in error
    assert not any(line.startswith("run ") for line in world.done)
