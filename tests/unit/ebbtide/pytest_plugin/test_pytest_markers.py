"""Mistakes in the pytest plugin's markers: told by the marker, with what was got, before anything of Kafka runs."""

from __future__ import annotations

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
            "*scenario takes one scenario, *; got 'healthy', kafak (did you mean 'kafka'?)",
        ),
        ("scenario('healthy', kafka=4.3)", "*scenario takes names in quotes, not 4.3"),
        ("kafka(version=['4.3.1'])", "*kafka takes releases, *; got version (did you mean 'versions'?)"),
        ("kafka()", "*kafka takes releases, *; got nothing"),
        ("kafka(versions=4.3)", "*kafka takes names in quotes, not 4.3"),
        ("needs(docker=True)", "needs takes names, *; got docker"),
    ],
)
def test_a_marker_says_what_it_got_and_what_was_probably_meant(project: Project, marker: str, says: str) -> None:
    result = project.run(f"@pytest.mark.{marker}\ndef test_it(): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([says, "asked: ?? *"])


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
    ("words", "says"),
    [
        ("'last-replica-standin'", "*does not know 'last-replica-standin' (did you mean 'last-replica-standing'?); *"),
        (
            "'elecions', 'polls-skip'",
            "*'elecions' (did you mean 'elections'?), 'polls-skip' (did you mean 'poll-skip'*",
        ),
        ("'lost'", "*does not know 'lost'; allowed: the causes unclean-election, last-replica-standing, *"),
        ("", "expected_violation takes causes, *; got nothing"),
        ("cause='unclean-election'", "expected_violation takes causes, *; got cause"),
    ],
)
def test_what_no_verdict_can_say_is_refused_before_anything_runs(project: Project, words: str, says: str) -> None:
    result = project.run(f"@pytest.mark.expected_violation({words})\ndef test_it(chaos): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([says, "asked: ?? *"])


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        ("kafka(versions=['4.3.1', '4.3'])", "@pytest.mark.kafka: not a Kafka release"),
        ("scenario('holds', kafka='4.3')", "@pytest.mark.scenario: not a Kafka release"),
        ("scenario('last-replica-standin')", "unknown scenario, *"),
        ("kafka()", "kafka takes releases, *; got nothing"),
    ],
)
def test_a_wrong_marker_is_an_error_of_its_test_and_the_others_of_the_file_run(
    project: Project, marker: str, says: str
) -> None:
    wrong = f"@pytest.mark.parametrize('x', [1])\n@pytest.mark.{marker}\ndef test_it(x): pass"
    result = project.run(f"{wrong}\n\n{RUNS}\ndef test_holds(): pass\n\ndef test_plain(): pass", "-v")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*::test_it?1? ERROR *", says])
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
