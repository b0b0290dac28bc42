"""A client takes the signals of its process; run in the process of the tests, it takes them from one test only."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from workloads.process import Stop


@pytest.fixture(scope="module")
def _next_test_has_the_handler_of_before() -> Iterator[None]:
    """Fail if the test left another handler. A fixture of a module ends after those of its tests."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("_next_test_has_the_handler_of_before")
def test_a_client_is_asked_to_stop_by_sigterm(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    stop = Stop(str(tmp_path / "stop"))
    assert signal.getsignal(signal.SIGTERM) is not before
    assert not stop
    signal.raise_signal(signal.SIGTERM)
    assert stop
