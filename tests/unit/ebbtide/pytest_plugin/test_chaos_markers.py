"""Mistakes in a chaos marker are reported with the lines of the test's file, before a cluster starts."""

from __future__ import annotations

import itertools

import pytest
from plugin_project import Project, project

__all__ = ["project"]
pytest_plugins = "pytester"

ACKS = 'producers=[{"id": 1, "topic": "t", "rate_per_s": 5, "acks": "ll"}]'


def messages(project: Project, source: str) -> list[str]:
    """Return the lines of the one error or failure of a file; its first line is `source`."""
    (project.folder / "test_it.py").write_text(source)
    result = project.run("", "test_it.py")
    outcomes = result.parseoutcomes()
    assert outcomes.get("errors", 0) + outcomes.get("failed", 0) == 1
    at = next(at for at, line in enumerate(result.outlines) if line.startswith("___"))
    return list(itertools.takewhile(lambda line: not line.startswith("==="), result.outlines[at + 1 :]))


TEST = "def test_it(chaos): pass"
METHOD = "  def test_it(self, chaos): pass"


@pytest.mark.parametrize(
    ("source", "line", "at"),
    [
        (f"import pytest\n\n@pytest.mark.chaos({ACKS})\n{TEST}", 3, 3),
        (f"import pytest\n@pytest.mark.kafka('4.3.1')\n@pytest.mark.chaos(\n  settle_s=1,\n  {ACKS},\n)\n{TEST}", 3, 5),
        (f"from pytest import mark\n@mark.chaos({ACKS.replace('[', '[ # acks' + chr(10))})\n{TEST}", 2, 3),
        (f"import pytest\n@pytest.mark.chaos({ACKS})\nclass TestIt:\n{METHOD}", 2, 2),
        (f"import pytest\nclass TestIt:\n  pytestmark = [\n    pytest.mark.chaos({ACKS})]\n{METHOD}", 4, 4),
        (f"import pytest\npytestmark = pytest.mark.chaos({ACKS})\n{TEST}", 2, 2),
        (f"import pytest\nBY = {ACKS[10:]}\n@pytest.mark.chaos(settle_s=1,\n  producers=BY)\n{TEST}", 3, 4),
    ],
)
def test_a_mistake_names_the_file_the_line_of_the_marker_and_that_of_the_key(
    project: Project, source: str, line: int, at: int
) -> None:
    first, what, where, *_ = messages(project, source)
    assert first == f"test_it.py:{line}: @pytest.mark.chaos: 1 problem"
    assert what == "  1. wrong value"
    assert where == f"     where:   producers[0].acks (line {at})"


@pytest.mark.parametrize("value", ["None", "{1: 2}"])
def test_a_value_that_no_scenario_file_can_have_is_a_wrong_value(project: Project, value: str) -> None:
    source = f'import pytest\n@pytest.mark.chaos(topics={{"t": {{"partitions": {value}}}}})\ndef test_it(chaos): pass'
    assert messages(project, source)[1:3] == ["  1. wrong value", "     where:   topics.t.partitions (line 2)"]


@pytest.mark.parametrize(
    ("marker", "test"),
    [
        ("kafka()", TEST),
        ("needs('dcoker')", TEST),
        ("expected_violation('last-replica-standing')", "def test_it(): pass"),
        ("scenario(3)", TEST),
    ],
)
def test_a_mistake_in_any_marker_names_its_line(project: Project, marker: str, test: str) -> None:
    told = messages(project, f"import pytest\n\n@pytest.mark.filterwarnings('error')\n@pytest.mark.{marker}\n{test}")
    assert told[-1] == "  where:   test_it.py:4"


def test_what_kafka_refuses_of_a_marker_names_its_file_and_lines(project: Project) -> None:
    project.runner("refuses='cluster.broker_properties.num.io.threads'")
    properties = '{"broker_properties": {\n  "num.io.threads": "4"}}'
    assert messages(project, f"import pytest\n\n@pytest.mark.chaos(settle_s=1,\n  cluster={properties})\n{TEST}") == [
        "test_it.py:3: @pytest.mark.chaos: refused",
        "line 5",
    ]


def test_a_test_whose_marker_describes_a_cluster_uses_it(project: Project) -> None:
    result = project.run("@pytest.mark.chaos(settle_s=1)\ndef test_it(): pass")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["the chaos marker describes a cluster, but the test does not use *", "  where:   *.py:4"]
    )


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.chaos\ndef test_it(): pass",
        "pytestmark = pytest.mark.chaos(settle_s=1)\ndef test_it(): pass",
        "@pytest.mark.chaos(settle_s=1)\nclass TestIt:\n  def test_it(self): pass",
        "@pytest.mark.chaos(settle_s=1)\ndef test_it(request): request.getfixturevalue('chaos')",
    ],
)
def test_a_marker_that_describes_no_cluster_of_this_test_needs_no_fixture(project: Project, source: str) -> None:
    project.run(source).assert_outcomes(passed=1)
