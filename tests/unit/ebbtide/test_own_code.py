"""A limit of CPU time ends an endless loop, and leaves nothing behind."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from ebbtide.own_code import EndlessError, limited_cpu


def loop_for_ever() -> None:
    while True:
        pass


def test_an_endless_loop_ends_and_the_limit_goes_with_the_block() -> None:
    before = signal.getsignal(signal.SIGPROF)
    with pytest.raises(EndlessError, match=r"after 0\.05 s of CPU"), limited_cpu(0.05):
        loop_for_ever()
    assert signal.getitimer(signal.ITIMER_PROF)[0] == 0
    assert signal.getsignal(signal.SIGPROF) == before


def test_the_outer_limit_counts_within_an_inner_one() -> None:
    with pytest.raises(EndlessError, match=r"after 0\.05 s"), limited_cpu(0.05), limited_cpu(9):
        loop_for_ever()


def test_another_thread_runs_without_a_limit() -> None:
    def work() -> int:
        with limited_cpu(0.01):
            return sum(range(1_000_000))

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(work).result() > 0
