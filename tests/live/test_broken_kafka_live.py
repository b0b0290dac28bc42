"""The agent that plants bugs: it compiles, and each bug hooks a method of the release's classes."""

from __future__ import annotations

import pytest

from bench.broken_kafka.agent import problems_of
from bench.broken_kafka.bugs import Bug, read_bugs

pytestmark = [pytest.mark.live, pytest.mark.beside]


def test_each_bug_hooks_exactly_one_method_for_each_of_its_hooks() -> None:
    bugs = read_bugs().values()
    assert problems_of(bugs) == {bug.name: "ok" for bug in bugs}


def test_a_hook_that_no_method_has_is_named() -> None:
    bug = next(iter(read_bugs().values()))
    hook = bug.hooks[0].replace("#", "#no")
    astray = Bug(**{**{name: getattr(bug, name) for name in bug.__struct_fields__}, "hooks": (hook,)})
    assert problems_of([astray]) == {bug.name: f"{hook} matches 0 methods"}
