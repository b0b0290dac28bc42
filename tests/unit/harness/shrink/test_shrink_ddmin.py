"""Delta debugging on items of which it is known which are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from random import Random

import pytest

from harness.shrink.ddmin import First, Subset, ddmin


class NeededItems:
    """Shows whenever all `needed` are there; counts how often it was asked."""

    def __init__(self, *needed: int) -> None:
        self.needed = set(needed)
        self.asked: list[tuple[int, ...]] = []

    def __call__(self, part: tuple[int, ...]) -> bool:
        self.asked.append(part)
        return self.needed <= set(part)


def in_turn(shows: Callable[[tuple[int, ...]], bool]) -> First:
    """Asks about one part after the other."""
    return lambda parts: next((part for part in parts if shows(part.kept)), None)


@pytest.mark.parametrize("needed", list(combinations(range(12), 2)))
def test_exactly_the_two_items_that_are_needed_are_left(needed: tuple[int, int]) -> None:
    assert ddmin(tuple(range(12)), in_turn(NeededItems(*needed))) == needed


@pytest.mark.parametrize("needed", [(), (7,), (0, 14), (3, 4, 5, 6), (1, 5, 9, 13), tuple(range(15))])
def test_exactly_the_items_that_are_needed_are_left(needed: tuple[int, ...]) -> None:
    assert ddmin(tuple(range(15)), in_turn(NeededItems(*needed))) == needed


def test_four_scattered_items_of_fifteen_take_few_questions_and_none_is_asked_twice() -> None:
    needs = NeededItems(1, 5, 9, 13)
    ddmin(tuple(range(15)), in_turn(needs))
    assert len(needs.asked) == len(set(needs.asked))
    assert len(needs.asked) <= 28


def test_what_makes_no_sense_alone_is_never_asked_about() -> None:
    def valid_items(part: tuple[int, ...]) -> tuple[int, ...]:
        """Each odd item needs the even one before it."""
        return tuple(item for item in part if item % 2 == 0 or item - 1 in part)

    needs = NeededItems(4, 5)
    assert ddmin(tuple(range(10)), in_turn(needs), whole=valid_items) == (4, 5)
    assert all(part == valid_items(part) for part in needs.asked)


def test_parts_that_are_asked_about_ahead_change_nothing() -> None:
    def all_of_them(parts: Iterable[Subset]) -> Subset | None:
        return in_turn(needs)(list(parts))

    needs = NeededItems(1, 5, 9, 13)
    assert ddmin(tuple(range(15)), all_of_them) == (1, 5, 9, 13)


def test_an_item_that_stays_was_refused_twice_alone() -> None:
    needs = NeededItems(1, 5, 9, 13)
    ddmin(tuple(range(20)), in_turn(needs), refusals=2)
    for item in (1, 5, 9, 13):
        assert sum(item not in part and len(needs.needed - set(part)) == 1 for part in needs.asked) >= 2


class Flaky(NeededItems):
    """Like `Needs`, but a part with all items shows the finding only with a probability."""

    def __init__(self, seed: int, probability: float, *needed: int) -> None:
        super().__init__(*needed)
        self._random, self._probability = Random(seed), probability

    def __call__(self, part: tuple[int, ...]) -> bool:
        return super().__call__(part) and self._random.random() < self._probability


def test_what_four_runs_of_five_show_loses_all_but_one_of_its_sixteen_needless_items_in_fifty_runs() -> None:
    left, asked = [], []
    for seed in range(200):
        flaky = Flaky(seed, 0.8, *Random(seed).sample(range(20), 4))
        left.append(len(ddmin(tuple(range(20)), in_turn(flaky), refusals=2)))
        asked.append(len(flaky.asked))
    assert sum(one <= 5 for one in left) >= 197
    assert max(asked) <= 50
    assert sum(asked) / len(asked) <= 31
