"""The pytest plugin under pytest-xdist: no cluster in parallel workers, however a test asks for one; whole in one."""

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


def test_clusters_are_refused_in_parallel_workers_and_other_tests_are_not(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    _in_one_of_four_workers(project, monkeypatch)
    source = "@pytest.mark.scenario('holds', kafka='4.3.1')\ndef test_it(): pass\n\ndef test_other(): pass\n"
    source += "\n@pytest.fixture\ndef topic(): return 'of this project'\ndef test_own_topic(topic): pass\n"
    source += "\n@pytest.fixture(autouse=True, scope='session')\ndef _(pytestconfig): pass\n"
    result = project.run(source)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*cannot run in 4 pytest-xdist workers*"])


def test_a_fixture_that_extends_the_plugins_is_refused_before_any_other_is_made(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    _in_one_of_four_workers(project, monkeypatch)
    other = "@pytest.fixture(autouse=True, scope='session')\ndef other(): print('other is set up')"
    result = project.run(f"{_EXTENDS}\n{other}", "-s")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*cannot run in 4 pytest-xdist workers*", "asked: ?? still open: 0"])
    result.stdout.no_fnmatch_line("*other is set up*")


@pytest.mark.parametrize("name", ["kafka_cluster", "chaos", "topic"])
def test_a_fixture_that_is_asked_for_while_the_test_runs_is_refused_too(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _in_one_of_four_workers(project, monkeypatch)
    result = project.run(_ASKS_LATE.format(name=name))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*cannot run in 4 pytest-xdist workers*", "*still open: 0"])


def test_a_single_worker_runs_with_the_seed_that_the_header_shows(project: Project) -> None:
    source = "from pathlib import Path\n\n@pytest.mark.scenario('holds', kafka='4.3.1')\n"
    source += "def test_it(run_record): Path('seed').write_text(str(run_record.seed))"
    result = project.run(source, "-p", "xdist", "-n", "1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"ebbtide *, seed {(project.folder / 'seed').read_text()}, runtime auto, *"])


def test_the_controller_reports_the_cluster_that_a_single_worker_left_up(project: Project) -> None:
    source = "def test_it(kafka_cluster): assert False"
    result = project.run(source, "-p", "xdist", "-n", "1", "--ebbtide-keep-cluster")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["ebbtide: to stop it: ebbtide cluster down pytest-*"])
