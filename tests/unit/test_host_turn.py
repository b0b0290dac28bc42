"""Tests have the host one at a time, and lend it to each other."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from host_turn import HostTurn, by_turns

from ebbtide.waiting import wait_until


def is_free(place: Path) -> bool:
    """Whether another process could have the host now; a second open file counts as another process."""
    other = os.open(place, os.O_RDONLY)
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False
    finally:
        os.close(other)


def test_a_test_has_the_host_until_it_ends(tmp_path: Path) -> None:
    with HostTurn(tmp_path).held():
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


def test_a_test_that_lends_the_host_gets_it_back(tmp_path: Path) -> None:
    turn = HostTurn(tmp_path)
    with turn.held():
        turn.lend()
        assert is_free(tmp_path)
        turn.take_back()
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


def test_a_host_that_was_lent_to_the_end_is_free(tmp_path: Path) -> None:
    turn = HostTurn(tmp_path)
    with turn.held():
        turn.lend()
    assert is_free(tmp_path)


def test_the_host_is_not_lent_while_a_fixture_has_a_cluster_up(tmp_path: Path) -> None:
    turn = HostTurn(tmp_path)
    with turn.held(), turn.held():
        turn.lend()
        assert not is_free(tmp_path)


def test_a_fixture_keeps_the_host_between_its_tests(tmp_path: Path) -> None:
    turn = HostTurn(tmp_path)
    with contextlib.ExitStack() as fixture:
        with turn.held():
            fixture.enter_context(turn.held())
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


def test_what_needs_no_turn_takes_none_back(tmp_path: Path) -> None:
    HostTurn(tmp_path).take_back()
    assert is_free(tmp_path)


def test_a_test_waits_for_one_that_has_the_host(tmp_path: Path) -> None:
    had: list[str] = []
    first, second = HostTurn(tmp_path), HostTurn(tmp_path)

    def wait_for_it() -> None:
        with second.held():
            had.append("second")

    with ThreadPoolExecutor(1) as pool:
        with first.held():
            waiting = pool.submit(wait_for_it)
            assert not waiting.done()
            had.append("first")
        waiting.result(60)
    assert had == ["first", "second"]


def test_who_waits_has_the_host_before_one_who_gives_it_and_wants_it_again(tmp_path: Path) -> None:
    had: list[str] = []
    place = tmp_path / "place"
    place.mkdir()
    first, second = HostTurn(place), HostTurn(place)

    def have_it() -> None:
        with second.held():
            had.append("second")

    with ThreadPoolExecutor(1) as pool:
        with first.held():
            waiting = pool.submit(have_it)
            wait_until(lambda: not is_free(tmp_path), awaited="the second to wait", timeout_s=60)
        with first.held():
            had.append("first")
        waiting.result(60)
    assert had == ["second", "first"]


@pytest.mark.parametrize(("verb", "lends"), [("doctor", False), ("replay", False), ("analyze", True)])
@pytest.mark.parametrize("in_a_test", [True, False])
def test_a_command_has_the_host_unless_it_only_judges(tmp_path: Path, verb: str, lends: bool, in_a_test: bool) -> None:
    turn, was_free = HostTurn(tmp_path), []

    def run_to_end(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        was_free.append(is_free(tmp_path))
        return subprocess.CompletedProcess(words, 0)

    with turn.held() if in_a_test else contextlib.nullcontext():
        by_turns(turn, run_to_end)(["ebbtide", verb])
        assert is_free(tmp_path) is not in_a_test
    assert was_free == [lends]
