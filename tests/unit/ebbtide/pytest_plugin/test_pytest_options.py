"""The pytest plugin's options, on the command line and in the ini file; and a recorded run in their place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake_runner import ENDS, write_record
from plugin_project import Project, project

from ebbtide.pytest_plugin.judgement import where_to_look
from ebbtide.pytest_plugin.run_record import read_record
from ebbtide.scenario import catalogue

__all__ = ["project"]
pytest_plugins = "pytester"


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--ebbtide-command=none-such", "*--ebbtide-command: 'none-such' is not a program; *"),
        ("--ebbtide-seed=x", "*--ebbtide-seed: 'x' is not a whole number"),
        ("--ebbtide-seed=²", "*--ebbtide-seed: '²' is not a whole number"),
        ("-oebbtide_seed=x", "* ebbtide_seed: 'x' is not a whole number"),
        ("--ebbtide-runtime=podman", "*'podman' is not a runtime; allowed: auto, *"),
        ("--ebbtide-kafka=4.3", "*--ebbtide-kafka: not a Kafka release*"),
        ("-oebbtide_keep_cluster=maybe", "* ebbtide_keep_cluster: invalid truth value 'maybe'; allowed: true or false"),
        ("--ebbtide-rule=none.py", "*--ebbtide-rule: *none.py is not a file"),
        ("-oebbtide_rule=none.py", "*--ebbtide-rule: *none.py is not a file"),
        ("-oebbtide_require=maybe", "* ebbtide_require: *; allowed: true or false"),
    ],
)
def test_a_wrong_option_is_a_usage_error(project: Project, option: str, says: str) -> None:
    result = project.run("def test_it(): pass", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([says])


def test_the_command_may_be_that_of_another_environment(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "ebbtide"
    elsewhere.write_text("#!/bin/sh\necho elsewhere >&2\nexit 3\n")
    elsewhere.chmod(0o755)
    (project.folder / "conftest.py").unlink()
    result = project.run("def test_it(kafka_cluster): pass", "--ebbtide-kafka=4.3.1", f"--ebbtide-command={elsewhere}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the harness failed: *exit code 3*"])


def test_jars_of_the_user_stand_for_a_release(project: Project) -> None:
    source = """
import pytest

@pytest.mark.kafka("4.3.1", "./own.tgz")
def test_marked(kafka_cluster, kafka_version):
    assert kafka_version in ("4.3.1", "4.5.0-SNAPSHOT@0123abcd")

def test_typed(kafka_version):
    assert kafka_version == "4.5.0-SNAPSHOT@0123abcd"
"""
    project.run(source, "--ebbtide-kafka=./build/own.tgz").assert_outcomes(passed=3)


@pytest.mark.parametrize("option", ["--ebbtide-rule={}", "-oebbtide_rule={}"])
def test_rules_of_the_user_are_read_from_the_line_or_the_ini_file(project: Project, option: str) -> None:
    for name in ("ours", "theirs"):
        (project.folder / f"{name}.py").touch()
    source = """
from ebbtide.pytest_plugin.settings import read_settings

def test_it(pytestconfig):
    print("rules:", *(path.name for path in read_settings(pytestconfig).rules))
"""
    result = project.run(source, option.format("ours.py"), "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*rules: ours.py*"])
    if option.startswith("--"):
        both = project.run(source, option.format("ours.py"), option.format("theirs.py"), "-s")
        both.stdout.fnmatch_lines(["*rules: ours.py theirs.py*"])


def test_a_replay_says_what_kafka_ignored(project: Project) -> None:
    run = read_record(_record(project, "holds"))
    told = "  ignored, because Kafka 3.9.1 does not know them: cluster.broker_properties.old"
    assert told not in where_to_look(run)
    assert told in where_to_look(replace(run, ignored_properties=("cluster.broker_properties.old",)))


def test_the_ini_file_can_have_clusters_left_up_and_the_command_line_can_say_no(project: Project) -> None:
    (project.folder / "tox.ini").write_text("[pytest]\nebbtide_keep_cluster = true\n")
    failing = "def test_it(kafka_cluster): assert False"
    project.run(failing).stdout.fnmatch_lines(
        [
            "ebbtide: the cluster pytest-* is still running: ebbtide cluster exec --cluster pytest-* -- CMD",
            "*still open: 1",
        ]
    )
    project.run(failing, "-o", "ebbtide_keep_cluster=false").stdout.fnmatch_lines(["*still open: 0"])


def _record(project: Project, scenario: str) -> Path:
    """Of a run on Kafka 3.9.1, with the seed 11."""
    return write_record(project.folder / "old", "3.9.1", 11, ENDS["loses"], scenario).path


def test_a_recorded_run_is_had_again_as_it_was_and_not_as_its_scenario_would_have_it(project: Project) -> None:
    _record(project, "holds")
    source = "@pytest.mark.scenario('holds', kafka='4.3.1')\ndef test_it(): pass"
    result = project.run(source, "--ebbtide-replay", "old", "--junitxml=junit.xml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*Kafka 3.9.1, seed 11, *replaying old",
            "contradicted: 12 committed records*",
            "  replay: fidelity 0.75 to the recorded run",
            "asked: ?'replay of old'*",
        ]
    )
    told = {
        one.get("name"): one.get("value") for one in ElementTree.parse(project.folder / "junit.xml").iter("property")
    }
    assert (told["ebbtide_kafka"], told["ebbtide_fidelity"]) == ("3.9.1", "0.75")


def test_a_test_that_names_its_scenario_by_a_file_has_the_recorded_run_again(project: Project) -> None:
    _record(project, "healthy")
    (project.folder / "file.toml").write_text(catalogue.text_of("healthy"))
    result = project.run("@pytest.mark.scenario('file.toml')\ndef test_it(): pass", "--ebbtide-replay", "old")
    result.stdout.fnmatch_lines(["asked: ?'replay of old'?*"])


def test_what_has_no_test_of_its_scenario_is_not_replayed_and_that_is_said(project: Project) -> None:
    _record(project, "proves-nothing")
    source = "@pytest.mark.scenario('holds', kafka='4.3.1')\ndef test_it(run_record): assert run_record.seed == 11"
    result = project.run(source, "--ebbtide-replay", "old")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["ebbtide: no test here runs the recorded scenario proves-nothing, so only its release and seed are used"]
    )


def test_a_record_that_is_none_is_a_usage_error(project: Project) -> None:
    result = project.run("def test_it(): pass", "--ebbtide-replay", "old")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--ebbtide-replay: *"])


def test_the_cluster_of_a_replay_is_not_left_up_and_that_is_said(project: Project) -> None:
    _record(project, "holds")
    source = "@pytest.mark.scenario('holds')\ndef test_it(): pass"
    result = project.run(source, "--ebbtide-replay", "old", "--ebbtide-keep-cluster")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*replaying old (no cluster is kept)", "*still open: 0"])
