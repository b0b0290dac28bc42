"""The line of a scenario file that a problem is about."""

from __future__ import annotations

import pytest

from ebbtide.errors import Problems
from ebbtide.scenario import catalogue
from ebbtide.scenario.line_numbers import LineFinder
from ebbtide.scenario.parse import parse

TEXT = '''# a comment

name = "x"
description = """
several
[[steps]]
lines"""
kafka = [
    "3.9.1",
    "4.3.1",
]

[topics."t.a"]
min_isr = 2
config = { "a.b" = "1" }

[[steps]]
step = "wait"

# another comment
[[steps]]
step = "kill"
groups = [
    ["broker(1)"],
    ["broker(2)"],
]
'''


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("name", 3),
        ("description", 4),
        ("kafka", 8),
        ("kafka[1]", 8),
        ("topics", 13),
        ("topics.t.a", 13),
        ("topics.t.a.min_isr", 14),
        ("topics.t.a.config.a.b", 15),
        ("steps[0].step", 18),
        ("steps[1]", 21),
        ("steps[1].step", 22),
        ("steps[1].groups[1][0]", 23),
    ],
)
def test_a_value_is_found_where_it_begins(where: str, line: int) -> None:
    assert LineFinder(TEXT).line_of(where) == line


@pytest.mark.parametrize(("where", "line"), [("topics.t.a.partitions", 13), ("steps[1].target", 21)])
def test_a_missing_key_has_the_line_of_its_table(where: str, line: int) -> None:
    assert LineFinder(TEXT).line_of(where) == line


@pytest.mark.parametrize("where", ["", "producers", "producers[0].id", "x.toml", "/a/b.toml"])
def test_what_the_file_does_not_have_at_all_has_no_line(where: str) -> None:
    assert LineFinder(TEXT).line_of(where) is None


def test_a_file_of_one_megabyte_has_no_lines_and_costs_no_time() -> None:
    assert LineFinder("a = 1\n" + "# comment\n" * 100_000).line_of("a") is None


def test_a_value_of_hundreds_of_lines_is_found_where_it_begins() -> None:
    lines = "line\n" * 500
    assert LineFinder(f'a = 1\nb = """\n{lines}"""\nc = 1').line_of("b") == 2


@pytest.mark.parametrize("name", catalogue.names()[::10])
def test_every_step_of_a_shipped_scenario_is_found_at_its_header(name: str) -> None:
    text = catalogue.text_of(name)
    headers = [number for number, line in enumerate(text.split("\n"), 1) if line == "[[steps]]"]
    finder = LineFinder(text)
    assert [finder.line_of(f"steps[{at}]") for at in range(len(headers))] == headers


def test_each_problem_of_a_file_says_its_line() -> None:
    text = catalogue.text_of("healthy").replace("partitions = 3", 'partitions = "3"')
    number = text.split("\n").index('partitions = "3"') + 1
    with pytest.raises(Problems, match=rf"where:   topics\.t\.partitions \(line {number}\)"):
        parse(text, file="x.toml")
