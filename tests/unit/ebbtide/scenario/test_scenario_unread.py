"""Values that cannot be read are reported at their places, with the shape that is right there."""

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
