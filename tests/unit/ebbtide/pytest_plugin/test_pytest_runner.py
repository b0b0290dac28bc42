"""What the plugin's real runner makes of a command or an owner of a cluster that does not do what it should."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from fake_runner import ENDS, FakeProcess, FakeRunner, write_record

from ebbtide.daemon import control, starting
from ebbtide.daemon.messages import ClusterStatus, CreateTopic, Fire, Refusal, Reply, Request
from ebbtide.errors import Problems, UsageError
from ebbtide.judging_progress import ProgressListener
from ebbtide.pytest_plugin import runner as runners
from ebbtide.pytest_plugin.chaos_scenario import chaos_scenario
from ebbtide.pytest_plugin.kafka_cluster import Chaos
from ebbtide.pytest_plugin.markers import UNPLACED_CHAOS, MarkerPlace
from ebbtide.pytest_plugin.run_record import CommandFailed
from ebbtide.pytest_plugin.runner import CommandRunner, Lease
from ebbtide.pytest_plugin.settings import Settings
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.kafka_settings import RefusedByKafka
from ebbtide.scenario.model import TopicSpec
from ebbtide.waiting import WaitExpired


class StuckOwner(FakeProcess):
    """Its cluster comes up; it does not end when it should."""

    def __init__(self, status: ClusterStatus | None = None) -> None:
        self.status = status
        self.terminated = False

    def await_up(self, *_: object) -> ClusterStatus:
        assert self.status is not None
        return self.status

    def wait(self) -> int:
        raise WaitExpired("the daemon of pytest-1 to end", 120, "nothing")

    def terminate(self) -> None:
        self.terminated = True

    def forget_log(self) -> None:
        pass


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(runs=tmp_path / "runs", seed=3, runtime="local", kafka=None, require=False, keep_cluster=False)


def test_an_owner_that_does_not_end_is_the_harness_failing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "end", lambda _name: None)
    chaos, _ = FakeRunner().open_chaos(chaos_scenario({}, "4.3.1", None), "4.3.1", settings, keep=False)
    lease = Lease(name="pytest-1", process=StuckOwner())  # type: ignore[arg-type]
    with pytest.raises(CommandFailed, match="waited 120 s for the daemon of pytest-1 to end"):
        CommandRunner().judge_chaos(chaos, lease)


def test_a_cluster_of_a_session_says_so(settings: Settings) -> None:
    words = runners._daemon_options(Lease(name="pytest-1"), settings)
    assert words[-2:] == ["--started-by", f"the pytest session of process {os.getpid()}"]


def test_a_cluster_that_another_process_ended_is_said_to_be_ended(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "log_of", lambda name: tmp_path / f"{name}.log")
    process = starting.DaemonProcess([], "pytest-1", tied=True, command=["true"])
    process.wait()
    process.log.write_text("killed while it wro")
    assert process.last_words() == "killed while it wro"
    process.log.unlink()  # `ebbtide cluster down` removes it
    chaos, _ = FakeRunner().open_chaos(chaos_scenario({}, "4.3.1", None), "4.3.1", settings, keep=False)
    with pytest.raises(CommandFailed, match="another process ended pytest-1, as ebbtide cluster down does"):
        CommandRunner().judge_chaos(chaos, Lease(name="pytest-1", process=process))
    process.let_go()


def test_a_step_that_the_owner_refuses_is_shown_where_the_test_asked_for_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Refusal(usage=True, what="unknown partition", got="t-9")
    monkeypatch.setattr(control, "_ask", lambda _name, _request: Reply(refusal=refusal))
    stand_in, _ = FakeRunner().open_chaos(chaos_scenario({}, "4.3.1", None), "4.3.1", settings, keep=False)
    chaos = Chaos(stand_in._status, stand_in.topics)
    with pytest.raises(UsageError, match="unknown partition") as caught:
        chaos.power_loss("leader(t-9)")
    assert [Path(frame.path).name for frame in caught.traceback.filter(caught)] == [Path(__file__).name]


def test_a_test_makes_a_topic_of_its_own_beside_those_of_ebbtides_clients(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Request] = []

    def ask(_name: str, request: Request) -> Reply:
        asked.append(request)
        return Reply(step=StepEntry(index=0, step="create-topic", effect_ns=2, fired_ns=1))

    monkeypatch.setattr(control, "ask", ask)
    stand_in, _ = FakeRunner().open_chaos(chaos_scenario({}, "4.3.1", None), "4.3.1", settings, keep=False)
    chaos = Chaos(stand_in._status, stand_in.topics)
    assert chaos.create_topic("orders", partitions=2, retention_ms="9") == "orders"
    spec = TopicSpec(partitions=2, config={"retention.ms": "9"})
    assert asked == [CreateTopic(topic="orders", spec=spec)]
    assert chaos.create_topic(topic="t") == "t"
    assert [getattr(one.step, "topic", None) for one in asked[1:] if isinstance(one, Fire)] == ["t"]


@pytest.mark.parametrize(
    ("settings_of_topic", "says"),
    [
        ({"retention_ms": 9}, ["wrong value", "where:   retention_ms", "got:     9", 'a string in quotes: "9"']),
        ({"partitions": "2"}, ["wrong value", "where:   partitions", "a whole number"]),
        ({"partition": 1}, ["unknown setting of a topic", "where:   partition", "did you mean 'partitions'?"]),
        ({"replication_facter": "1"}, ["unknown setting of a topic", "did you mean 'replication_factor'?"]),
    ],
)
def test_a_setting_that_a_topic_cannot_have_is_reported_like_a_wrong_key_of_a_step(
    settings: Settings, settings_of_topic: Mapping[str, Any], says: Sequence[str]
) -> None:
    stand_in, _ = FakeRunner().open_chaos(chaos_scenario({}, "4.3.1", None), "4.3.1", settings, keep=False)
    chaos = Chaos(stand_in._status, stand_in.topics)
    with pytest.raises(Problems, match="the topic orders: 1 problem") as caught:
        chaos.create_topic("orders", **settings_of_topic)
    assert [one for one in says if one not in str(caught.value)] == []
    assert [Path(frame.path).name for frame in caught.traceback.filter(caught)] == [Path(__file__).name]


@pytest.mark.parametrize("command", ["kafka-topics.sh --list", "kafka-topics.sh '--list'"])
def test_a_command_in_one_text_is_not_taken_for_a_list_of_letters(settings: Settings, command: str) -> None:
    stand_in, _ = FakeRunner().open_chaos(chaos_scenario({}, "4.3.1", None), "4.3.1", settings, keep=False)
    with pytest.raises(UsageError, match="run takes the words of a command") as caught:
        stand_in.run(command)
    assert caught.value.allowed == 'a list of words: ["kafka-topics.sh", "--list"]'
    assert [Path(frame.path).name for frame in caught.traceback.filter(caught)] == [Path(__file__).name]


def test_a_kept_cluster_is_ended_when_its_run_cannot_be_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    chaos, _ = FakeRunner().open_chaos(chaos_scenario({}, "4.3.1", None), "4.3.1", settings, keep=True)
    unjudged = settings.runs / "run-1"
    owner = StuckOwner(msgspec.structs.replace(chaos._status, record=str(unjudged / "kept")))
    monkeypatch.setattr(starting, "DaemonProcess", lambda *_arguments, **_how: owner)
    with pytest.raises(CommandFailed, match="run-1"):
        CommandRunner().run_scenario("healthy", "4.3.1", settings, keep=True)
    assert owner.terminated


def test_what_kafka_refuses_of_a_marker_names_the_marker_and_no_file_that_nobody_has(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RefusedCluster(FakeProcess):
        def __init__(self, words: Sequence[str], *_: object, **__: object) -> None:
            self._file = words[2]

        def await_up(self, *_: object) -> ClusterStatus:
            again = f"ebbtide cluster up {self._file}    (once the file is right)"
            raise UsageError(refused.in_file(self._file, Path(self._file).read_text(), again).render())

    what = "Kafka does not know num.io.threads, and ignores it"
    problems = [UsageError(what, where="cluster.broker_properties.num.io.threads", allowed="others")]
    refused = RefusedByKafka("", problems, allowed="", next="correct it")
    monkeypatch.setattr(starting, "DaemonProcess", RefusedCluster)
    scenario = chaos_scenario({"cluster": {"broker_properties": {"num.io.threads": "4"}}}, "4.3.1", None)
    runner = CommandRunner()
    monkeypatch.setattr(runner, "_judge", Mock())
    text = 'chaos(\n  cluster={"broker_properties": {\n    "num.io.threads": "4"}})'
    (call,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    places = [
        (MarkerPlace(name="chaos", file="test_it.py", line=1, call=call), "test_it.py:1: ", " (line 3)"),
        (UNPLACED_CHAOS, "", ""),
    ]
    for marker, place, line in places:
        with pytest.raises(CommandFailed) as caught:
            runner.open_chaos(scenario, "4.3.1", settings, keep=False, marker=marker)
        assert str(caught.value).splitlines() == [
            f"{place}@pytest.mark.chaos: 1 problem",
            f"  1. {what}",
            f"     where:   cluster.broker_properties.num.io.threads{line}",
            "     allowed: others",
            "  next:    correct the marker, and run the test again",
        ]


@pytest.mark.parametrize(("code", "out"), [(3, '{"replays": []}\n'), (0, "")], ids=["failed", "silent"])
def test_a_replay_that_is_not_carried_out_is_the_harness_failing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, code: int, out: str
) -> None:
    def finish_command(words: Sequence[str], *_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, code, out, "error: no record\n")

    monkeypatch.setattr(runners, "_run_to_end", finish_command)
    with pytest.raises(CommandFailed, match=rf"no record\nebbtide replay old[\s\S]*exit code {code}"):
        CommandRunner().replay(Path("old"), settings)


def test_rules_of_the_user_reach_the_process_that_judges_and_replays(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[Sequence[str]] = []

    def finish_command(words: Sequence[str], *_: object) -> subprocess.CompletedProcess[str]:
        called.append(words)
        return subprocess.CompletedProcess(words, 3, "", "error: enough\n")

    monkeypatch.setattr(runners, "_run_to_end", finish_command)
    runner = CommandRunner(rules=[Path("ours.py")])
    with pytest.raises(CommandFailed):
        runner.replay(Path("old"), replace(settings, rules=(Path("ours.py"),)))
    assert runner._judge._command[-2:] == ("--rule", "ours.py")
    at = list(called[0]).index("--rule")
    assert called[0][at : at + 2] == ["--rule", "ours.py"]


def test_the_message_of_a_mistake_has_no_command_that_the_plugin_typed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess(["ebbtide", "replay", "old"], 4, "", "error: no record\n  next:    look\n")
    monkeypatch.setattr(runners, "_run_to_end", lambda *_: done)
    with pytest.raises(CommandFailed) as caught:
        CommandRunner().replay(Path("old"), settings)
    assert (str(caught.value), caught.value.mistake) == ("no record\n  next:    look", True)


def test_a_replay_has_the_same_runtime_and_place_as_any_run_and_is_read_with_its_fidelity(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record(settings.runs / "again", "3.9.1", 11, ENDS["holds"])
    asked: list[Sequence[str]] = []

    def finish_command(words: Sequence[str], *_: object) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        out = '{"run_id": "old", "replays": [{"kafka": "3.9.1", "run_id": "again", "fidelity": 0.5}]}\n'
        return subprocess.CompletedProcess([], 1, out, "")

    monkeypatch.setattr(runners, "_run_to_end", finish_command)
    run = CommandRunner(["elsewhere"]).replay(Path("old"), settings)
    assert (run.path, run.kafka, run.seed, run.fidelity) == (settings.runs / "again", "3.9.1", 11, 0.5)
    assert asked == [["elsewhere", "replay", "old", "--json", "--runs", str(settings.runs), "--runtime", "local"]]


def test_progress_lines_of_a_command_are_passed_on_while_it_still_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(runners, "_LISTEN_EVERY_S", 0.01)
    line, heard = "judging for 10 s: 0 of 1 run done, stage 2 of 7: summing up", tmp_path / "heard"
    waits = f"import pathlib, time\nwhile not pathlib.Path({str(heard)!r}).exists(): time.sleep(0.01)"
    script = f"import sys\nprint('a note\\n{line}', file=sys.stderr, flush=True)\n{waits}\nprint('done')"
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        heard.touch()

    done = runners._run_to_end([sys.executable, "-c", script], ProgressListener(say).hear)
    assert (said, done.stdout, done.stderr) == ([line], "done\n", f"a note\n{line}\n")
