"""A client takes the signals of its process; run in the process of the tests, it takes them from one test only."""

from __future__ import annotations

import signal
from pathlib import Path

from workloads.process import Stop

BEFORE = signal.getsignal(signal.SIGTERM)


def test_a_client_is_asked_to_stop_by_sigterm(tmp_path: Path) -> None:
    stop = Stop(str(tmp_path / "stop"))
    assert not stop
    signal.raise_signal(signal.SIGTERM)
    assert stop


def test_the_test_after_it_has_the_handlers_of_before() -> None:
    assert signal.getsignal(signal.SIGTERM) is BEFORE
