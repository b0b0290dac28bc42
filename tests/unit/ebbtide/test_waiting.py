"""Waiting: the first value that counts is returned, and a wait that expires explains itself."""

from __future__ import annotations

from itertools import count

import pytest

from ebbtide.waiting import WaitExpired, wait_until


def test_the_first_truthy_value_is_returned() -> None:
    numbers = count()
    assert wait_until(lambda: next(numbers), awaited="a number", timeout_s=5, poll_s=0.001) == 1


def test_a_wait_that_expires_says_what_it_awaited_and_what_it_last_saw() -> None:
    seen = []

    def look() -> bool:
        seen.append(len(seen))
        return False

    with pytest.raises(WaitExpired, match=r"waited 0\.05 s for the tide; last seen: \d+ looks") as caught:
        wait_until(look, awaited="the tide", timeout_s=0.05, poll_s=0.01, last_seen=lambda: f"{len(seen)} looks")
    assert caught.value.awaited == "the tide"
    assert len(seen) >= 2


def test_what_the_condition_raises_comes_through_at_once() -> None:
    def broken_condition() -> bool:
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        wait_until(broken_condition, awaited="nothing", timeout_s=5)
