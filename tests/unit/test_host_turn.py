"""Tests have the host one at a time, and lend it to each other."""

from __future__ import annotations

import contextlib
import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from host_turn import HostTurn


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
