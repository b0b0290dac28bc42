"""A cluster that cannot be watched is refused with one clear error, soon."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from ebbtide.errors import UsageError
from harness.watch import probing
from harness.watch.probing import probe_cluster


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of something that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_port_at_which_nothing_listens_is_named(closed: str) -> None:
    with pytest.raises(UsageError, match="no broker answers") as caught:
        probe_cluster([closed], None, None)
    assert "refused" in str(caught.value)
    assert closed in str(caught.value)


def test_an_address_that_hangs_is_given_up_soon(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_ANSWER_S", 0.2)
    began = time.monotonic()
    with pytest.raises(UsageError, match="no answer within"):
        probe_cluster([silent, silent], None, None)
    assert time.monotonic() - began < 2


def test_a_broker_that_stops_answering_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_first_answer", lambda *_, **__: "127.0.0.1:1")
    with pytest.raises(UsageError, match="the broker stopped answering"):
        probe_cluster(["127.0.0.1:1"], None, None)


def test_many_addresses_that_hang_take_no_longer_than_the_deadline(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_DEADLINE_S", 0.3)
    with pytest.raises(UsageError, match="not asked"):
        probe_cluster([silent] * 9, None, None)


def test_a_host_that_nobody_knows_is_named() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.invalid"):
        probe_cluster(["nowhere.invalid:9092"], None, None)


def test_the_deadlines_leave_less_than_15_seconds() -> None:
    assert probing._DEADLINE_S + probing._ANSWER_S <= 15
