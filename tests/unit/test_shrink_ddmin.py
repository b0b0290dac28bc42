"""Delta debugging on items of which it is known which are needed."""

from __future__ import annotations

from itertools import combinations

import pytest

from harness.shrink.ddmin import ddmin


class Needs:
    """Shows whenever all `needed` are there; counts how often it was asked."""

    def __init__(self, *needed: int) -> None:
        self.needed = set(needed)
        self.asked: list[tuple[int, ...]] = []

    def __call__(self, part: tuple[int, ...]) -> bool:
        self.asked.append(part)
        return self.needed <= set(part)


@pytest.mark.parametrize("needed", list(combinations(range(12), 2)))
def test_exactly_the_two_items_that_are_needed_are_left(needed: tuple[int, int]) -> None:
    assert ddmin(tuple(range(12)), Needs(*needed)) == needed


@pytest.mark.parametrize("needed", [(), (7,), (0, 14), (3, 4, 5, 6), (1, 5, 9, 13), tuple(range(15))])
def test_exactly_the_items_that_are_needed_are_left(needed: tuple[int, ...]) -> None:
    assert ddmin(tuple(range(15)), Needs(*needed)) == needed


def test_four_scattered_items_of_fifteen_take_few_questions_and_none_is_asked_twice() -> None:
    needs = Needs(1, 5, 9, 13)
    ddmin(tuple(range(15)), needs)
    assert len(needs.asked) == len(set(needs.asked))
    assert len(needs.asked) <= 40


def test_what_makes_no_sense_alone_is_never_asked_about() -> None:
    def whole(part: tuple[int, ...]) -> tuple[int, ...]:
        """Each odd item needs the even one before it."""
        return tuple(item for item in part if item % 2 == 0 or item - 1 in part)

    needs = Needs(4, 5)
    assert ddmin(tuple(range(10)), needs, whole=whole) == (4, 5)
    assert all(part == whole(part) for part in needs.asked)
