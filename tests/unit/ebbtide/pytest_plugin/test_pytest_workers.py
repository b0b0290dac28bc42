"""The pytest plugin under pytest-xdist: tests of parallel workers have their clusters in turn."""

from __future__ import annotations

import pytest
from plugin_project import Project, project

__all__ = ["project"]
pytest_plugins = "pytester"

_EXTENDS = """
@pytest.fixture(scope="session")
def kafka_cluster(kafka_cluster):
    yield kafka_cluster

def test_it(kafka_cluster): pass
"""
_ASKS_LATE = "def test_it(request): request.getfixturevalue({name!r})"


def _in_one_of_four_workers(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "4")
    with (project.folder / "conftest.py").open("a") as conftest:
        conftest.write("\ndef pytest_sessionstart(session):\n    session.config.workerinput = {}\n")


_TURN = """
from pathlib import Path
from ebbtide.locks import is_held

def has_turn(): return bool(is_held(Path("runs/.pytest-turn")))
"""
_LATER = "def test_later(): assert not has_turn()"


def test_tests_of_two_workers_have_their_clusters_one_after_the_other(project: Project) -> None:
    source = """
import os, time
from pathlib import Path

@pytest.mark.parametrize("number", range(6))
def test_it(chaos, number):
    with Path("one cluster").open("x"):
        time.sleep(0.2)
    Path("one cluster").unlink()
    Path(f"ran in {os.environ['PYTEST_XDIST_WORKER']}").touch()
"""
    result = project.run(source, "-p", "xdist", "-n", "2")
    result.assert_outcomes(passed=6)
    assert len([*project.folder.glob("ran in gw*")]) == 2


def test_a_test_has_the_turn_from_its_first_fixture_to_its_teardown_and_other_tests_never(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    _in_one_of_four_workers(project, monkeypatch)
    source = f"""{_TURN}
@pytest.fixture(autouse=True)
def around(request):
    expected = "chaos" in request.fixturenames
    assert has_turn() is expected
    yield
    assert has_turn() is expected

def test_it(chaos): pass
{_LATER}
@pytest.fixture
def topic(): return "of this project"
def test_own_topic(topic): assert not has_turn()
"""
    project.run(source).assert_outcomes(passed=3)


def test_a_test_whose_fixture_extends_the_plugins_has_the_turn(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    _in_one_of_four_workers(project, monkeypatch)
    extends = _EXTENDS.replace("pass", "assert has_turn()")
    project.run(f"{_TURN}\n{extends}\n{_LATER}").assert_outcomes(passed=2)


@pytest.mark.parametrize("name", ["kafka_cluster", "chaos", "topic"])
def test_a_fixture_that_is_asked_for_while_the_test_runs_takes_the_turn_too(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _in_one_of_four_workers(project, monkeypatch)
    asks = f"{_ASKS_LATE.format(name=name)}; assert has_turn()"
    project.run(f"{_TURN}\n{asks}\n{_LATER}").assert_outcomes(passed=2)


def test_without_parallel_workers_there_is_no_lock(project: Project) -> None:
    project.run("def test_it(chaos): pass").assert_outcomes(passed=1)
    assert not (project.folder / "runs" / ".pytest-turn").exists()


def test_a_folder_that_cannot_be_made_is_one_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    _in_one_of_four_workers(project, monkeypatch)
    (project.folder / "runs").write_text("a file")
    result = project.run("def test_it(chaos): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*cannot make the folder of run records*"])


def test_a_single_worker_runs_with_the_seed_that_the_header_shows(project: Project) -> None:
    source = "from pathlib import Path\n\n@pytest.mark.scenario('holds', kafka='4.3.1')\n"
    source += "def test_it(run_record): Path('seed').write_text(str(run_record.seed))"
    result = project.run(source, "-p", "xdist", "-n", "1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"ebbtide *, seed {(project.folder / 'seed').read_text()}, runtime auto, *"])


def test_the_controller_reports_the_clusters_that_two_workers_left_up(project: Project) -> None:
    source = "@pytest.mark.parametrize('number', range(6))\ndef test_it(kafka_cluster, number): assert False"
    result = project.run(source, "-p", "xdist", "-n", "2", "--ebbtide-keep-cluster")
    result.assert_outcomes(failed=6)
    told = [line for line in result.outlines if line.startswith("ebbtide: to stop it: ebbtide cluster down pytest-")]
    assert len(told) == 2


def test_the_controller_reports_the_cluster_that_a_single_worker_left_up(project: Project) -> None:
    source = "def test_it(kafka_cluster): assert False"
    result = project.run(source, "-p", "xdist", "-n", "1", "--ebbtide-keep-cluster")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["ebbtide: to stop it: ebbtide cluster down pytest-*"])
