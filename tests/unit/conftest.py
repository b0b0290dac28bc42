"""What the unit tests share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from daemon_up import Up

from analysis.advise import answers
from analysis.spec.variants import VARIANTS
from cluster.host.ledger import Ledger
from ebbtide.daemon.control import end
from ebbtide.errors import HarnessError


@pytest.fixture(autouse=True)
def _no_real_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is started by mistake: it would change this host beside the tests that look at what is left on it."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a unit test would start a real cluster")

    monkeypatch.setattr("harness.runner.run.open_runtime", refuse)


@pytest.fixture(scope="session", autouse=True)
def _each_question_of_advice_is_searched_once() -> Iterator[None]:
    """The same few events are asked about in most tests of the advice, and a search takes up to a second.

    A piece of advice itself searches no question twice, by the same key.
    """
    found: dict[Any, Any] = {}
    search = answers.search_event

    def search_once(release: Any, bounds: Any, acks: Any, states_max: int) -> Any:
        key = (VARIANTS[release.variant], tuple(sorted(release.features.items())), bounds, acks, states_max)
        if key not in found:
            found[key] = search(release, bounds, acks, states_max)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "search_event", search_once)
        yield


@pytest.fixture
def no_clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """None is up that the test has not started."""
    # A path longer than a socket's may be: 107 characters.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("long" * 30)))


@pytest.fixture
def up(no_clusters: None, tmp_path: Path) -> Iterator[Up]:
    """The cluster `one`, and no other."""
    cluster = Up(tmp_path)
    yield cluster
    with contextlib.suppress(HarnessError):  # it has ended in the test
        end("one")
    cluster.thread.join(60)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """The ledger of the run r."""
    with Ledger.open("r", tmp_path, ledgers=tmp_path / "ledger") as opened:
        yield opened
