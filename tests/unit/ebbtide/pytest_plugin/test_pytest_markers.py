"""Mistakes in the plugin's markers: told with what was got and the lines of the test's file, before Kafka runs."""

from __future__ import annotations

import itertools

import pytest
from plugin_project import Project, project

__all__ = ["project"]
pytest_plugins = "pytester"

RUNS = "@pytest.mark.scenario('holds', kafka='4.3.1')"


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        (
            "scenario('healthy', kafak='4.3.1')",
            "*scenario takes one scenario, *\n  got:     'healthy', kafak (did you mean 'kafka'?)",
        ),
        ("scenario('healthy', kafka=4.3)", "*scenario takes names in quotes, not 4.3"),
        ("kafka(version=['4.3.1'])", "*kafka takes releases, *\n  got:     version (did you mean 'versions'?)"),
        ("kafka()", "*kafka takes releases, *\n  got:     nothing"),
        ("kafka(versions=4.3)", "*kafka takes names in quotes, not 4.3"),
        ("needs(docker=True)", "needs takes names, *\n  got:     docker"),
        (
            "expected_violation('last-replica-standin')",
            "*does not know 'last-replica-standin' (did you mean 'last-replica-standing'?)",
        ),
        (
            "expected_violation('elecions', 'polls-skip')",
            "*'elecions' (did you mean 'elections'?)\n*'polls-skip' (did you mean 'poll-skip'*",
        ),
        (
            "expected_violation('lost')",
            "*does not know 'lost'\n  allowed: the causes unclean-election, last-replica-standing, *",
        ),
        ("expected_violation()", "expected_violation takes causes, *\n  got:     nothing"),
        ("expected_violation('lost', cause='lost')", "expected_violation takes causes, *\n  got:     'lost', cause"),
    ],
)
def test_a_marker_says_what_it_got_and_what_was_probably_meant(project: Project, marker: str, says: str) -> None:
    result = project.run(f"@pytest.mark.{marker}\ndef test_it(chaos): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([*says.split("\n"), "asked: ?? *"])


@pytest.mark.parametrize(
    ("marker", "name", "wrong"),
    [
        ("kafka(versions=['4.3', '4.3.1', '3'])", "kafka", ["'4.3'", "'3'"]),
        ("kafka(versions='4.3.1,3.9.1')", "kafka", ["'4.3.1,3.9.1'"]),
        ("kafka('2.8.0')", "kafka", ["2.8.0"]),
        ("scenario('holds', kafka='4.3')", "scenario", ["'4.3'"]),
    ],
)
def test_an_invalid_release_is_reported_once_and_with_its_marker(
    project: Project, marker: str, name: str, wrong: list[str]
) -> None:
    result = project.run(f"@pytest.mark.{marker}\ndef test_it(chaos): pass")
    result.assert_outcomes(errors=1)
    lines = result.outlines
    assert [line for line in lines if line.startswith("  got: ")] == [f"  got:     {one}" for one in wrong]
    assert sum(f"@pytest.mark.{name}: " in line for line in lines) == len(wrong)
    result.stdout.no_fnmatch_line("*the chaos marker*")


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        ("kafka(versions=['4.3.1', '4.3'])", "@pytest.mark.kafka: not a Kafka release"),
        ("scenario('holds', kafka='4.3')", "@pytest.mark.scenario: not a Kafka release"),
        ("scenario('last-replica-standin')", "unknown scenario, *"),
        ("kafka()", "kafka takes releases, *\n  got:     nothing"),
    ],
)
def test_a_wrong_marker_is_an_error_of_its_test_and_the_others_of_the_file_run(
    project: Project, marker: str, says: str
) -> None:
    wrong = f"@pytest.mark.parametrize('x', [1])\n@pytest.mark.{marker}\ndef test_it(x): pass"
    result = project.run(f"{wrong}\n\n{RUNS}\ndef test_holds(): pass\n\ndef test_plain(): pass", "-v")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*::test_it?1? ERROR *", *says.split("\n")])
    result.stdout.no_fnmatch_line("*Interrupted*")
    assert sum(line.startswith(says.partition(",")[0]) for line in result.outlines) == 1


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("@pytest.mark.kafka('4.3.1', '9.9.9')\ndef test_it(chaos): pass", ":4"),
        ("@pytest.mark.kafka('9.9.9')\ndef test_it(kafka_cluster): pass", ":4"),
        ("@pytest.mark.scenario('holds', kafka='9.9.9')\ndef test_it(): pass", ":4"),
    ],
)
def test_a_release_that_does_not_exist_is_a_mistake_in_its_marker_before_a_cluster_starts(
    project: Project, source: str, place: str
) -> None:
    result = project.run(source)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["Kafka 9.9.9 is not published", f"  where:   *.py{place}", "asked: ?'fetch 9.9.9'?*"])


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.kafka('4.3.1')\ndef test_it(kafka_cluster): pass",
        "@pytest.mark.kafka('9.9.8')\ndef test_it(kafka_cluster): pass",
        "@pytest.mark.kafka('9.9.9')\ndef test_it(kafka_version): pass",
    ],
    ids=["a known release", "no answer", "no cluster"],
)
def test_a_release_that_may_exist_or_is_not_started_is_no_mistake(project: Project, source: str) -> None:
    project.run(source).assert_outcomes(passed=1)


def test_the_ports_of_a_chaos_marker_are_any_free_ones(project: Project) -> None:
    result = project.run("@pytest.mark.chaos(publish=19092)\ndef test_it(chaos): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["publish is True, False or 'tls', not 19092: the ports are any free ones"])


def test_a_test_without_published_ports_is_told_how_to_get_them(project: Project) -> None:
    result = project.run("def test_it(chaos): chaos.published")
    result.stdout.fnmatch_lines(["*@pytest.mark.chaos(publish=True)*"])


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
