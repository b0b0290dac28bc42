"""Settings that only Kafka can check: the verb that read the scenario names their file and lines."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from ebbtide.errors import EbbtideError, ExitCode, Problems, UsageError
from ebbtide.scenario import catalogue
from ebbtide.scenario.kafka_settings import RefusedByKafka
from ebbtide.scenario.validate_settings import ScenarioSetting
from harness.cli import run as run_verb
from harness.cli.main import main
from harness.daemon import owned_runs
from harness.runner.settings_check import unknown_properties_error

SETTINGS = """
[cluster.broker_properties]
"num.io.threads" = "4"
"log.message.downconversion.enable" = "true"
[cluster]
controller_properties = { "reserved.broker.max.id" = "9" }
"""
UNKNOWN = tuple(
    ScenarioSetting(place="node", table=f"cluster.{role}_properties", name=name, value="1", releases=("4.3.1",))
    for role, name in (("broker", "log.message.downconversion.enable"), ("controller", "reserved.broker.max.id"))
)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A scenario file with two properties of another release."""
    file = tmp_path / "my.toml"
    file.write_text(catalogue.text_of("healthy") + SETTINGS)
    return file


def line_of(file: Path, word: str) -> int:
    return next(number for number, line in enumerate(file.read_text().splitlines(), 1) if word in line)


def test_each_setting_is_named_with_its_line_and_the_one_that_was_meant(scenario: Path) -> None:
    with pytest.raises(Problems) as caught, catalogue.located_refusals(str(scenario), "ebbtide run"):
        raise unknown_properties_error(UNKNOWN)
    assert caught.value.exit_code == ExitCode.USAGE
    thread, segment = line_of(scenario, "log.message.downconversion.enable"), line_of(scenario, "reserved.broker")
    assert caught.value.render().splitlines() == [
        f"{scenario}: 2 problems",
        "  1. Kafka does not know log.message.downconversion.enable, and ignores it: Kafka 4.0.0 removed it",
        f"     where:   cluster.broker_properties.log.message.downconversion.enable (line {thread})",
        "     allowed: properties of this release",
        "  2. Kafka does not know reserved.broker.max.id, and ignores it: Kafka 4.0.0 removed it",
        f"     where:   cluster.controller_properties.reserved.broker.max.id (line {segment})",
        "     allowed: properties of this release",
        f"  next:    ebbtide run {scenario}    (once the file is right)",
    ]


def test_lines_are_those_of_the_file_that_was_run(scenario: Path) -> None:
    thread = line_of(scenario, "log.message.downconversion.enable")

    @catalogue.located_refusals(str(scenario), "ebbtide run")
    def run() -> None:
        scenario.unlink()
        raise unknown_properties_error(UNKNOWN)

    with pytest.raises(Problems) as caught:
        run()
    assert caught.value.problems[0].line == thread


def test_a_scenario_of_the_catalogue_is_named_as_a_file() -> None:
    refused = RefusedByKafka("no", [UsageError("no", where="topics.t")], allowed="others", next="correct it")
    with pytest.raises(Problems) as caught, catalogue.located_refusals("healthy", "ebbtide run"):
        raise refused
    assert caught.value.file == "healthy.toml"
    assert caught.value.problems[0].line == 9
    assert caught.value.next == "ebbtide scenarios show healthy > my.toml    (a copy that you can change)"


def test_without_a_file_and_of_other_errors_nothing_changes(scenario: Path) -> None:
    errors: list[tuple[str | None, EbbtideError]] = [
        (None, unknown_properties_error(UNKNOWN)),
        (str(scenario), UsageError("wrong", where="topics.t")),
    ]
    for name, error in errors:
        with pytest.raises(UsageError) as caught, catalogue.located_refusals(name, "ebbtide run"):
            raise error
        assert caught.value is error


def test_the_settings_survive_the_way_from_the_process_of_a_run(scenario: Path) -> None:
    sent: RefusedByKafka = pickle.loads(pickle.dumps(unknown_properties_error(UNKNOWN)))
    assert sent.next == "correct the scenario file, and run it again"
    assert "(line " in sent.in_file("my.toml", scenario.read_text(), "ebbtide run my.toml").render()


def test_the_command_that_starts_a_cluster_again_keeps_every_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: list[str] = []
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("harness.runner.launch.check", lambda *_: None)
    monkeypatch.setattr("harness.cli.run_flow.CheckedRuns.requests", lambda *_: [None])
    monkeypatch.setattr(owned_runs, "own_cluster", lambda *_, up_again, **__: again.append(up_again))
    options = f"--runs {tmp_path / 'runs'} --kafka 4.3.1 --cluster mine --wire"
    assert main(["cluster", "up", "--foreground", *options.split()]) == ExitCode.AS_PREDICTED
    assert again == [f"ebbtide cluster up {options}"]


@pytest.mark.parametrize(
    "verb", [["run"], ["run", "--keep-cluster"], ["cluster", "up", "--foreground"]], ids=["run", "keep", "up"]
)
def test_every_verb_that_runs_a_file_names_it(
    verb: list[str], scenario: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise unknown_properties_error(UNKNOWN)

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("harness.runner.launch.check", lambda *_: None)
    monkeypatch.setattr("harness.cli.run_flow.CheckedRuns.requests", lambda *_: [None])
    monkeypatch.setattr(run_verb, "run_and_judge", refuse)
    monkeypatch.setattr(run_verb, "_run_and_keep", refuse)
    monkeypatch.setattr(owned_runs, "own_cluster", refuse)
    runs = ["--runs", str(scenario.parent / "runs"), "--kafka", "4.3.1"]
    assert main([*verb, str(scenario), *runs]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert f"error: {scenario}: 2 problems\n" in error
    again = " ".join(word for word in verb if not word.startswith("-"))
    assert f"  next:    ebbtide {again} {scenario}    (once the file is right)\n" in error
