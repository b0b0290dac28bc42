"""Scenario files of any size are checked, or refused, within about a second of CPU time."""

from __future__ import annotations

import contextlib
import random
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from ebbtide.errors import Problems, UsageError
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import BYTES_MAX, ELEMENTS_MAX, PROBLEMS_MAX, decode_scenario_text, load, parse

CPU_MAX_S = 4.0
"""Each file takes less than 1 s on a host that does nothing else; without bounds, each took more than 8 s."""

WHOLE = tomllib.loads(catalogue.text_of("last-replica-standing"))
TEXT = tomli_w.dumps(WHOLE)


def steps_of(count: int, kind: Callable[[int], dict[str, Any]]) -> str:
    return tomli_w.dumps({**WHOLE, "steps": [kind(at) for at in range(count)]})


def predictions_of(count: int, releases: int) -> str:
    wider = [{**one, "kafka": f">=3.{at % 9}"} for at, one in enumerate(WHOLE["predictions"] * (count // 2))]
    return tomli_w.dumps({**WHOLE, "kafka": [f"4.{at}.0" for at in range(releases)], "predictions": wider})


def unknown_keys(count: int) -> str:
    dice = random.Random(1)
    names = ("targe", "trigge", "nam", "groupz", "topi", "confi", "optiona", "deadlin")
    keys = {f"{dice.choice(names)}{at}" for at in range(count)}
    return f"{TEXT}\n[[steps]]\nstep = 'kill'\n" + "\n".join(f"{key} = 1" for key in sorted(keys))


LARGE: dict[str, Callable[[], str]] = {
    "steps of one name": lambda: steps_of(10_000, lambda at: {"step": "kill", "name": "a", "target": "leader(t-0)"}),
    "as many steps as there may be": lambda: steps_of(
        ELEMENTS_MAX,
        lambda at: (
            {"step": "kill", "target": "broker(1)", "name": f"k{at}"}
            if at % 2 == 0
            else {"step": "start", "target": f"step(k{at - 1})"}
        ),
    ),
    "as many wrong steps": lambda: steps_of(
        ELEMENTS_MAX, lambda at: {"step": "kil", "target": at, "trigger": {"after_s": 1}}
    ),
    "a chain of pauses": lambda: steps_of(
        ELEMENTS_MAX,
        lambda at: {"step": "pause", "name": f"s{at}", "target": f"step(s{at - 1})" if at else "broker(1)"},
    ),
    "predictions": lambda: predictions_of(20_000, 3),
    "as many predictions and releases as there may be": lambda: predictions_of(ELEMENTS_MAX, 100),
    "unknown keys at the top": lambda: "\n".join(f"k{at} = 1" for at in range(300_000)) + f"\n{TEXT}",
    "unknown keys in each step": lambda: steps_of(ELEMENTS_MAX, lambda at: {f"targe{at}{n}": 1 for n in range(15)}),
    "as many unknown keys as there may be": lambda: unknown_keys(ELEMENTS_MAX - 1),
    "releases": lambda: tomli_w.dumps({**WHOLE, "kafka": ["3.9.1"] * 20_000}),
    "topics": lambda: tomli_w.dumps({**WHOLE, "topics": {f"t{at}": WHOLE["topics"]["t"] for at in range(5_000)}}),
    "producers": lambda: tomli_w.dumps(
        {**WHOLE, "producers": [{**WHOLE["producers"][0], "id": at + 1} for at in range(ELEMENTS_MAX)]}
    ),
    "empty lines": lambda: "\n" * 15_000_000 + TEXT,
    "tables": lambda: "[[a]]\n" * 200_000,
    "a text without an end": lambda: 'x = """' + "a\n" * 499 + TEXT,
    "texts without an end": lambda: 'y = "a"\n' * 499 + 'x = """' + "a\n" * 400,
    "wrong values on each line": lambda: steps_of(190, lambda at: {"step": "kill", "target": at, "name": at}),
    "brackets": lambda: "[" * 5_000_000,
    "a number": lambda: f"x = {'9' * 5_000}\n{TEXT}",
    "a hexadecimal number": lambda: f"x = 0x{'f' * 5_000}\n{TEXT}",
    "parentheses": lambda: TEXT.replace('target = "leader(t-0)"', f'target = "{"leader(" * 3_000}t-0{")" * 3_000}"'),
}
"""What makes the text of each: to make all takes seconds, and only their own tests need them."""


@pytest.mark.parametrize("name", LARGE)
def test_a_large_file_is_checked_or_refused_at_once(tmp_path: Path, name: str) -> None:
    file = tmp_path / "large.toml"
    file.write_text(LARGE[name]())
    before = time.process_time()
    with contextlib.suppress(UsageError):
        load(file, strict=True)
    assert time.process_time() - before < CPU_MAX_S


def test_a_file_of_more_bytes_than_any_scenario_has_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "large.toml"
    file.write_text(TEXT + "#" * BYTES_MAX)
    with pytest.raises(UsageError, match="the scenario file is too large"):
        load(file)


@pytest.mark.parametrize(("most", "key"), [(ELEMENTS_MAX, "predictions"), (100, "kafka")])
def test_a_list_that_is_too_long_is_refused_with_its_place(most: int, key: str) -> None:
    text = tomli_w.dumps({**WHOLE, key: (WHOLE[key] * (most + 1))[: most + 1]})
    with pytest.raises(Problems, match="too long for a scenario") as caught:
        parse(text, file="x.toml")
    [problem] = caught.value.problems
    assert (problem.where, problem.got, problem.allowed) == (key, f"{most + 1:,} elements", f"up to {most:,}")


def test_a_table_with_too_many_keys_is_refused_with_its_place() -> None:
    with pytest.raises(UsageError) as caught:
        decode_scenario_text("[a.b]\n" + "\n".join(f"k{at} = 1" for at in range(ELEMENTS_MAX + 1)))
    assert (caught.value.where, caught.value.got) == ("a.b", "1,001 keys")


def test_of_many_problems_the_first_are_shown_and_the_last_line_says_so() -> None:
    text = steps_of(300, lambda at: {"step": "kill", "target": at})
    with pytest.raises(Problems) as caught:
        parse(text, file="x.toml")
    *shown, last = caught.value.problems
    assert [one.where for one in shown] == [f"steps[{at}].target" for at in range(PROBLEMS_MAX)]
    assert last.what == f"the file has {PROBLEMS_MAX} problems or more, of which these are the first"


def test_what_the_checks_after_the_types_find_is_bounded_too() -> None:
    text = steps_of(300, lambda at: {"step": "kill", "target": "leader(nope-0)"})
    with pytest.raises(Problems) as caught:
        parse(text, file="x.toml")
    assert len(caught.value.problems) == PROBLEMS_MAX + 1
