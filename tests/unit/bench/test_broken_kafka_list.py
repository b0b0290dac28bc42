"""The list of planted bugs: long enough, from Kafka's own history where it can be, and of scenarios that exist."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import msgspec

from bench.broken_kafka.bugs import KAFKA, TABLE, Area, read_bugs
from ebbtide.scenario.catalogue import names

BUGS = read_bugs()


def test_at_least_sixty_bugs_are_planted_and_no_name_stands_twice() -> None:
    rows = msgspec.toml.decode(TABLE.read_bytes())["bugs"]
    assert len(rows) == len(BUGS) >= 60


def test_at_least_twenty_come_from_a_fix_or_from_a_sentence_of_a_kip() -> None:
    sources = [bug.source for bug in BUGS.values() if bug.source is not None]
    assert all(source.startswith(("KAFKA-", "KIP-")) and ": " in source for source in sources)
    assert len([source for source in sources if "in our words" not in source]) >= 20


def test_each_area_has_several_bugs() -> None:
    areas = Counter(bug.area for bug in BUGS.values())
    assert {area: count for area in get_args(Area) if (count := areas[area]) < 4} == {}


def test_each_bug_has_at_most_three_scenarios_of_the_catalogue() -> None:
    known = set(names())
    assert {bug.name for bug in BUGS.values() if len(bug.scenarios) > 3 or set(bug.scenarios) - known} == set()


def test_each_hook_names_a_class_and_a_method() -> None:
    assert {hook for bug in BUGS.values() for hook in bug.hooks if hook.count("#") != 1 or "." not in hook} == set()


def test_the_sentences_are_sentences() -> None:
    assert {bug.name for bug in BUGS.values() if not bug.changes.endswith(".") or bug.shows.endswith(".")} == set()
    assert KAFKA == "4.3.1"
