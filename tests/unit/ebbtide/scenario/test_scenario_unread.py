"""Values that cannot be read are reported at their places and lines, with the shape that is right there."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from quick import quick_first

from ebbtide.errors import Problems
from ebbtide.scenario import catalogue
from ebbtide.scenario.line_numbers import LineFinder
from ebbtide.scenario.parse import load, parse
from ebbtide.scenario.steps.table import help_of_kind


@pytest.mark.parametrize(
    ("count", "next"),
    [(100_000, help_of_kind("wait")), (-1, "ebbtide scenarios show healthy    (an example of a whole file)")],
)
def test_validating_suggests_the_help_of_a_kind_if_only_steps_are_wrong(tmp_path: Path, count: int, next: str) -> None:
    file = tmp_path / "wrong.toml"
    text = catalogue.text_of("healthy").replace("deadline_s = 120", "deadline_s = -1")
    file.write_text(text.replace("count = 100000", f"count = {count}"))
    with pytest.raises(Problems) as found:
        load(file)
    assert found.value.next == next


def test_validating_suggests_the_list_of_kinds_if_only_a_kind_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(catalogue.text_of("healthy").replace('step = "wait"', 'step = "wate"'))
    with pytest.raises(Problems) as found:
        load(file)
    assert str(found.value.next).startswith("ebbtide cluster fault --help ")


@pytest.mark.parametrize("name", quick_first(catalogue.names()[::2] + catalogue.names()[1::2], 15))
def test_a_value_of_another_type_anywhere_in_a_scenario_is_reported_at_its_place(name: str) -> None:
    raw = tomllib.loads(catalogue.text_of(name))
    for path in random.Random(name).sample([one for one in _places(raw, ()) if one], 4):
        wrong = tomllib.loads(catalogue.text_of(name))
        holder = wrong
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = 5 if isinstance(holder[path[-1]], str) else "%%"
        with pytest.raises(Problems) as caught:
            parse(tomli_w.dumps(wrong), file=name, strict=True)
        assert any(str(one.where).startswith(str(path[0])) for one in caught.value.problems), caught.value


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, one in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield from _places(one, (*path, key))


def test_a_number_of_more_digits_than_python_reads_is_a_mistake_of_the_file() -> None:
    with pytest.raises(Problems, match="not TOML"):
        parse(f"settle_s = {'1' * 5000}", file="f.toml")


def test_a_value_that_toml_allows_and_ebbtide_does_not_read_has_no_line() -> None:
    with pytest.raises(Problems, match=r"where:   f\.toml\n"):
        parse(f"settle_s = {'[' * 70}{']' * 70}", file="f.toml")


def test_a_file_that_is_too_long_to_search_is_not_toml_without_a_line() -> None:
    with pytest.raises(Problems, match=r"where:   f\.toml\n"):
        parse("# x\n" * 2_000 + "kafka = [", file="f.toml")


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
