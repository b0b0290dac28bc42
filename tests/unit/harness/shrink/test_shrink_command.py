"""What one call of shrink leaves for the next, how it has its candidates run, and what it tells in the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from replay_records import LOST

from cluster.images.find import Image
from cluster.runtime.base import PowerLossMethod
from cluster.runtime.choose import Choice, DockerChoice, LocalChoice
from ebbtide import judging_process
from ebbtide.errors import ExitCode, HarnessError, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest, write_manifest
from ebbtide.scenario.model import Scenario
from harness.cli.main import main
from harness.replay.recorded_run import LoadedRun, load_run
from harness.runner import launch as launching
from harness.runner.launch import Launch, LaunchOptions
from harness.shrink import running
from harness.shrink.answers import CandidateRun
from harness.shrink.file import KeptStep, file_text, kept_steps
from harness.shrink.goal import goal_from_record
from harness.shrink.journal import Decision
from harness.shrink.running import ShrinkResult, shrink
from harness.shrink.search import NotReproduced, SmallerScenario

KAFKA = load_run(LOST).manifest.kafka


class Host:
    """Runs whatever it is asked to, by `launch`; the finding shows where `shows` says so. `runs`: how many of each.

    Each run says that it took a second. On the clock of the search, two take a second, as with two at once.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shows: set[str] = set()
        self.runs: dict[str, int] = {}
        self.record: str | None = None
        self.needs: Callable[[Scenario], bool] = lambda _: True
        self.clock_s = 0.0
        monkeypatch.setattr(running, "CandidateRunner", self.refuse_way)
        monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: self.clock_s))

    def refuse_way(self, *, launch: Launch, **_: Any) -> Any:
        told = launch.describe_way(KAFKA)

        def decide(wanted: Iterable[CandidateRun]) -> Generator[tuple[int, Decision | HarnessError], None, None]:
            for number, _, scenario in wanted:
                self.runs[told] = self.runs.get(told, 0) + 1
                self.clock_s += 0.5
                yield (
                    number,
                    Decision(shows=told in self.shows and self.needs(scenario), took_s=1.0, record=self.record),
                )

        return decide


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch)


def launch_of(runs: Path, method: PowerLossMethod = "fs-shutdown", *, choice: Choice | None = None) -> Launch:
    return Launch(runs=runs, runtimes={KAFKA: choice or LocalChoice()}, power_loss_method=method)


def shrink_run(launch: Launch, display: Any = None, recorded: LoadedRun | None = None) -> ShrinkResult:
    recorded = recorded or load_run(LOST)
    return shrink(recorded, launch=launch, judge=Mock(), display=display or Mock(), budget_s=1000.0, times=3)


def image(id: str) -> DockerChoice:
    return DockerChoice(image=Image(reference="kafka", id=id, why="asked for"), daemon="27")


def test_what_runs_made_another_way_said_is_no_answer(host: Host, tmp_path: Path) -> None:
    by_truncate = launch_of(tmp_path, "truncate")
    ways = [
        launch_of(tmp_path),
        launch_of(tmp_path, choice=image("sha256:1")),
        launch_of(tmp_path, choice=image("sha256:2")),
    ]
    for launch in ways:
        with pytest.raises(NotReproduced):
            shrink_run(launch)
    assert len(host.runs) == len(ways)
    # A no does not stand for truncate, whose yes does not stand for the others.
    host.shows.add(by_truncate.describe_way(KAFKA))
    done = shrink_run(by_truncate)
    assert done.runs == host.runs[by_truncate.describe_way(KAFKA)]
    assert done.took_s == done.runs
    assert done.elapsed_s == done.runs / 2
    before = dict(host.runs)
    again = shrink_run(by_truncate)
    assert again.text == done.text
    assert (again.took_s, again.elapsed_s) == (done.took_s, 0.0)
    assert host.runs == before
    for launch in ways:
        with pytest.raises(NotReproduced):
            shrink_run(launch)
        assert host.runs[launch.describe_way(KAFKA)] > before[launch.describe_way(KAFKA)]


def test_a_schedule_that_did_not_show_its_finding_is_tried_again_by_the_next_call(host: Host, tmp_path: Path) -> None:
    launch = launch_of(tmp_path)
    told = launch.describe_way(KAFKA)
    with pytest.raises(NotReproduced) as caught:
        shrink_run(launch)
    assert caught.value.where == str(tmp_path / ".shrink" / load_run(LOST).manifest.run_id)
    assert caught.value.got == told
    first = host.runs[told]
    with pytest.raises(NotReproduced, match="in 2 runs"):
        shrink_run(launch)
    # The guesses were asked about before.
    assert host.runs[told] == first + 2
    host.shows.add(told)
    assert shrink_run(launch).smaller.shown == 3


def test_what_kafka_ignored_in_the_runs_is_not_written(host: Host, tmp_path: Path) -> None:
    launch = launch_of(tmp_path / "runs")
    host.shows.add(launch.describe_way(KAFKA))
    host.record = str(shutil.copytree(LOST, tmp_path / "shown"))
    old = "log.message.downconversion.enable"
    ignored = (f"cluster.broker_properties.{old}",)
    write_manifest(
        RecordFolder(Path(host.record)),
        msgspec.structs.replace(read_manifest(RecordFolder(LOST)), ignored_properties=ignored),
    )
    recorded = load_run(LOST)
    cluster = msgspec.structs.replace(recorded.scenario.cluster, broker_properties={old: "true"})
    scenario = msgspec.structs.replace(recorded.scenario, cluster=cluster)
    # Extras go anyway where the finding shows without them: here whatever is left out is missed.
    host.needs = lambda asked: asked.cluster.broker_properties == {old: "true"}
    done = shrink_run(launch, recorded=msgspec.structs.replace(recorded, scenario=scenario))
    assert old not in done.text
    assert done.smaller.scenario.cluster.broker_properties == {}


def test_a_second_shrink_of_a_record_is_refused_while_the_first_goes_on(host: Host, tmp_path: Path) -> None:
    launch = launch_of(tmp_path)
    host.shows.add(launch.describe_way(KAFKA))
    second: list[UsageError] = []

    def shrink_meanwhile(_scenario: Scenario) -> bool:
        """A moment at which a shrink is under way."""
        if not second:
            with pytest.raises(UsageError, match="another shrink of this run is under way") as caught:
                shrink_run(launch)
            second.append(caught.value)
        return True

    host.needs = shrink_meanwhile
    first = shrink_run(launch)
    [refused] = second
    assert refused.got == f"held by process {os.getpid()}"
    assert "wait until it has ended" in str(refused.next)
    # Once it has ended, its answers are known.
    assert shrink_run(launch).text == first.text


class Command:
    """`ebbtide shrink` with stand-ins for the search and for who judges. `wanted`: how the runs were asked for."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.out = tmp_path / "small.toml"
        self.wanted: LaunchOptions | None = None
        self.searches = 0
        recorded = load_run(LOST)
        self.smaller = SmallerScenario(scenario=recorded.scenario, shown=3, times=3, finished=True)
        self._goal = goal_from_record(recorded)
        self.ends: BaseException | None = None
        self.kept: tuple[KeptStep, ...] = ()
        monkeypatch.setattr(launching, "check", lambda *_: None)
        monkeypatch.setattr(launching, "prepare", self._prepare)
        monkeypatch.setattr(running, "shrink", self._shrink)
        monkeypatch.setattr(judging_process, "JudgingProcess", lambda **_: nullcontext(Mock()))
        monkeypatch.setattr(os, "geteuid", lambda: 0)

    def _prepare(self, wanted: LaunchOptions, *_: object) -> None:
        self.wanted = wanted

    def _shrink(self, *_: object, **__: object) -> ShrinkResult:
        self.searches += 1
        if self.ends is not None:
            raise self.ends
        text = file_text(self.smaller, load_run(LOST), self._goal)
        return ShrinkResult(
            smaller=self.smaller, goal=self._goal, text=text, kept=self.kept, runs=5, took_s=300.0, elapsed_s=90.0
        )

    def __call__(self, record: Path, *options: str) -> ExitCode:
        return ExitCode(main(["shrink", str(record), "--out", str(self.out), *options]))


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(tmp_path, monkeypatch)


def test_a_file_of_anybody_else_is_refused_before_the_search_and_an_earlier_result_of_the_run_is_replaced(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(LOST) == command(LOST) == ExitCode.AS_PREDICTED
    other = Path(shutil.copytree(LOST, tmp_path / "run"))
    write_manifest(
        RecordFolder(other),
        msgspec.structs.replace(
            read_manifest(RecordFolder(other)), run_id=read_manifest(RecordFolder(LOST)).run_id[:-1]
        ),
    )
    before = command.out.read_text()
    assert command(other) == ExitCode.USAGE
    assert "the file exists" in capsys.readouterr().err
    command.out.write_text("mine")
    assert command(LOST) == ExitCode.USAGE
    assert (command.out.read_text(), command.searches) == ("mine", 2)
    assert "Written by `ebbtide shrink`" in before


GOES_ON = "the search is not finished; the same command continues it"
GAVE_WAY = (
    "a smaller scenario showed the finding only in half of its runs or fewer; "
    "the same command would give the same result"
)


@pytest.mark.parametrize(
    ("finished", "gave_way", "told"),
    [(True, False, None), (True, True, GAVE_WAY), (False, False, GOES_ON), (False, True, GOES_ON)],
)
def test_a_search_that_was_cut_short_goes_on_and_one_whose_result_gave_way_does_not(
    command: Command, capsys: pytest.CaptureFixture[str], finished: bool, gave_way: bool, told: str | None
) -> None:
    command.smaller = msgspec.structs.replace(command.smaller, finished=finished, gave_way=gave_way)
    command(LOST)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in (GOES_ON, GAVE_WAY)] == ([told] if told else [])
    command(LOST, "--json")
    found = msgspec.json.decode(capsys.readouterr().out)
    assert (found["finished"], found["gave_way"]) == (finished, gave_way)


def _cut_short() -> RuntimeError:
    """What a library raises that an interrupt cut short."""
    error = RuntimeError("the gateway is gone")
    error.__context__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyboardInterrupt(), True),
        (SystemExit(143), True),
        (_cut_short(), True),
        (NotReproduced("the finding did not come"), False),
    ],
    ids=["Ctrl-C", "SIGTERM", "what Ctrl-C cut short", "an answer"],
)
def test_an_interrupted_shrink_says_that_the_same_command_continues(
    error: BaseException, told: bool, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    command.ends = error
    assert command(LOST) == (ExitCode.HARNESS_FAILED if told else ExitCode.INCONCLUSIVE)
    said = capsys.readouterr().err
    assert ("next: the same command continues" in said) == told
    assert ("interrupted" in said) == told


def test_a_shrink_prints_which_steps_of_the_record_it_kept(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    command.kept = kept_steps(load_run(LOST), (1,))
    command(LOST)
    said = capsys.readouterr().out
    assert "  kept: step 1, power-loss leader(t-0)" in said
    assert f", line {command.kept[0].line} of {LOST / 'scenario.toml'}\n" in said
    command(LOST, "--json")
    [kept] = msgspec.json.decode(capsys.readouterr().out)["kept"]
    assert (kept["index"], kept["text"], kept["alike_left_out"]) == (1, "power-loss leader(t-0)", [])
