"""A project of its own that has Ebbtide's wheel installed: how its tests end on real Kafka, and what CI is told."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import host_turn
import pytest
import runner_contract
from host_state import HostState, left_after
from host_turn import HOST, PLACE, by_turns
from live.foreign_venv import ROOT, make_venv
from quick import quick_first

from cluster.jars.releases import ensure
from ebbtide.pytest_plugin import runner as plugin_runner
from ebbtide.pytest_plugin.runner import CommandRunner
from ebbtide.pytest_plugin.settings import Settings

pytestmark = pytest.mark.live

CHAOS = "test_what_all_three_replicas_acked_is_still_there"
OWN_PACKAGES = ("analysis", "cluster", "faults", "harness", "workloads")
TURNS = """
import contextlib
import pytest
from host_turn import HostTurn, by_turns
from pathlib import Path
from ebbtide.pytest_plugin import runner

turn, until_the_end = HostTurn(Path({place!r})), contextlib.ExitStack()
open_cluster = runner.CommandRunner.open_cluster
runner._run_to_end = by_turns(turn, runner._run_to_end)

def open_and_keep(*arguments, **options):
    until_the_end.enter_context(turn.held())
    return open_cluster(*arguments, **options)

runner.CommandRunner.open_cluster = open_and_keep

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    with turn.held():
        return (yield)

def pytest_unconfigure():
    until_the_end.close()
"""
"""The project's own conftest.py, which gives its tests the host by turns with all others.

A cluster that tests share is up until the session ends, and the host is held as long.
"""
NOTHING = "test_what_never_came_about_proves_nothing[4.3.1]"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One testcase of JUnit XML: `end` is the element that says so, or `passed`; `message` is the one-line reason."""

    end: str
    message: str
    text: str
    properties: dict[str, str]


def _cases(junit: Path) -> dict[str, Case]:
    """By name, as a CI server reads them."""
    found = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        ends = [one for one in case if one.tag in ("failure", "error", "skipped")]
        assert len(ends) <= 1, ElementTree.tostring(case, "unicode")
        end = ends[0] if ends else None
        found[case.attrib["name"]] = Case(
            end="passed" if end is None else end.tag,
            message="" if end is None else end.get("message", ""),
            text="" if end is None else end.text or "",
            properties={one.attrib["name"]: one.attrib["value"] for one in case.iter("property")},
        )
    return found


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with Ebbtide's wheel and pytest-xdist."""
    return make_venv(tmp_path_factory.mktemp("own"), "pytest-xdist")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The sample project, with packages of its own that are called as Ebbtide's folders are."""
    folder = Path(shutil.copytree(ROOT / "tests" / "sample_project", tmp_path / "project"))
    for name in OWN_PACKAGES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"SAYS = 'the project has a package {name}'\n")
    (folder / "test_own_packages.py").write_text(
        "import importlib\n\nimport pytest\n\n\n"
        f"@pytest.mark.parametrize('name', {OWN_PACKAGES!r})\n"
        "def test_own_package(name):\n"
        "    assert importlib.import_module(name).SAYS == f'the project has a package {name}'\n"
    )
    shutil.copy(host_turn.__file__, folder)
    (folder / "conftest.py").write_text(TURNS.format(place=str(PLACE)))
    return folder


def _run(python: Path, project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    if (project / "conftest.py").exists():
        HOST.lend()
    return subprocess.run(
        [python, "-m", "pytest", "--ebbtide-runtime=local", "--ebbtide-seed=7", *words],
        cwd=project,
        env={
            **{name: word for name, word in os.environ.items() if not name.startswith(("PYTHONPATH", "PYTEST_"))},
            "DOCKER_HOST": "unix:///nonexistent",
        },
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


@pytest.mark.beside
@pytest.mark.slow
def test_after_the_installation_only_ebbtide_is_new_in_site_packages(python: Path) -> None:
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    own = {path.name for path in site.iterdir() if not path.is_symlink()}
    assert {name for name in own if not name.endswith((".dist-info", ".pth"))} <= {"ebbtide", "__pycache__"}


@pytest.mark.slow
def test_parallel_workers_have_their_clusters_in_turn_and_the_verdicts_of_one(python: Path, project: Path) -> None:
    ensure(["3.9.1", "4.3.1"])
    # This test has the host until its workers are done. They take turns by Ebbtide's lock, not by the project's.
    (project / "conftest.py").unlink()
    done = _run(python, project, "-n", "2", "-k", CHAOS, "--junitxml=junit.xml")
    told = done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout, told
    cases = _cases(project / "junit.xml")
    assert {name: case.end for name, case in cases.items()} == {
        f"{CHAOS}[3.9.1]": "failure",
        f"{CHAOS}[4.3.1]": "passed",
    }, told


@pytest.mark.slow
def test_a_project_that_has_only_the_wheel_and_its_dependencies_gets_the_right_verdicts(
    python: Path, project: Path, tmp_path: Path
) -> None:
    ensure(["3.9.1", "4.3.1"])
    before = HostState.now()
    done = _run(python, project, "--junitxml=junit.xml")
    told = done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, told
    assert f"2 failed, {3 + len(OWN_PACKAGES)} passed, 1 skipped" in done.stdout, told
    cases = _cases(project / "junit.xml")
    assert {name: case.end for name, case in cases.items()} == {
        f"{CHAOS}[3.9.1]": "failure",
        f"{CHAOS}[4.3.1]": "passed",
        "test_a_loss_that_is_known_of_3_9[3.9.1]": "passed",
        NOTHING: "failure",
        "test_a_cluster_without_a_verdict[4.3.1]": "passed",
        "test_what_needs_docker": "skipped",
        **{f"test_own_package[{name}]": "passed" for name in OWN_PACKAGES},
    }, told
    suite = next(ElementTree.parse(project / "junit.xml").iter("testsuite"))
    assert {key: suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": str(6 + len(OWN_PACKAGES)),
        "failures": "2",
        "errors": "0",
        "skipped": "1",
    }
    _check_contradicted(cases[f"{CHAOS}[3.9.1]"], done.stdout)
    _inconclusive(cases[NOTHING], done.stdout)
    held = cases[f"{CHAOS}[4.3.1]"].properties
    assert (held["ebbtide_outcome"], held["ebbtide_acked"], held["ebbtide_lost"]) == ("as-predicted", "2000", "0")
    known = cases["test_a_loss_that_is_known_of_3_9[3.9.1]"].properties
    assert (known["ebbtide_outcome"], known["ebbtide_causes"]) == ("as-predicted", "last-replica-standing")
    assert (known["ebbtide_kafka"], known["ebbtide_seed"]) == ("3.9.1", "7")
    assert cases["test_a_cluster_without_a_verdict[4.3.1]"].properties == {}
    assert cases["test_what_needs_docker"].message.startswith("needs docker: ")
    records = [Path(one.properties["ebbtide_record"]) for one in cases.values() if one.properties]
    assert len(set(records)) == 4
    for record in records:
        assert record.parent == project / "runs"
        assert (record / "report.html").is_file()
    assert left_after(before, str(tmp_path), *(record.name for record in records)) == []


def _check_contradicted(case: Case, output: str) -> None:
    """Losses, cause, first offsets, record and the next command: in the terminal and for CI."""
    record = case.properties["ebbtide_record"]
    for line in (
        "contradicted: predicted no loss of committed records, seen 2,000 lost",
        "first at offset 0, last at 1999; cause: last-replica-standing, by the election of broker ",
        f"  record: {record}",
        f"  next:   ebbtide explain {record} ",
        f"  again:  ebbtide replay {record}",
    ):
        assert line in output, output
        assert line in case.text
    assert case.message.startswith("Failed: contradicted: predicted no loss of committed records")
    told = {
        name: case.properties[f"ebbtide_{name}"] for name in ("outcome", "kafka", "seed", "acked", "lost", "causes")
    }
    assert told == {
        "outcome": "contradicted",
        "kafka": "3.9.1",
        "seed": "7",
        "acked": "2000",
        "lost": "2000",
        "causes": "last-replica-standing",
    }


def _inconclusive(case: Case, output: str) -> None:
    """Where the step was asked for, and beside it the verdict of the run."""
    says = "inconclusive: step 0 (kill) never fired: "
    assert f"Unproven: {says}" in output, output
    assert f"Unproven: {says}" in case.message
    assert "inconclusive: " in output.partition("Captured ebbtide call")[2], output
    assert case.properties["ebbtide_outcome"] == "inconclusive"
    assert (case.properties["ebbtide_acked"], case.properties["ebbtide_lost"]) == ("0", "0")


@pytest.mark.parametrize("replays", quick_first([False, True]))
def test_the_real_runner_keeps_the_contract_that_the_stand_in_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, replays: bool
) -> None:
    ensure([runner_contract.KAFKA])
    monkeypatch.setattr(plugin_runner, "_run_to_end", by_turns(HOST, plugin_runner._run_to_end))
    settings = Settings(runs=tmp_path / "runs", seed=3, runtime="local", kafka=None, require=False, keep_cluster=False)
    before = HostState.now()
    runner = CommandRunner()
    runner_contract.abilities_have_names_and_reasons(runner)
    runner_contract.an_unknown_scenario_is_a_mistake(runner, settings)
    runner_contract.an_unknown_release_is_a_mistake(runner, "9.9.9" if replays else "2.8.0")
    try:
        record = runner_contract.a_chaos_run_is_judged_with_its_steps(runner, settings)
        if replays:
            runner_contract.a_chaos_run_can_be_replayed(runner, settings, record)
    finally:
        runner.end_session()
    assert left_after(before, str(tmp_path), *(record.name for record in settings.runs.iterdir())) == []
