"""A host name has a deadline, although the C library's lookup has none."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from made_cluster import MadeCluster, served_cluster

from cluster.kafka_api import resolving
from cluster.kafka_api.connection import BrokerConnection, WireError
from cluster.snapshot import secure_connection
from cluster.snapshot.security import Security
from ebbtide.errors import UsageError

NAME = "broker.hangs.example"
LOOK_UP = socket.getaddrinfo


@pytest.fixture
def hanging_lookups(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names end in a lookup that hangs until the test is over; what was looked up."""
    is_over, asked = threading.Event(), list[str]()

    def hang(host: str, *words: Any, **options: Any) -> Any:
        if host != NAME:
            return LOOK_UP(host, *words, **options)
        asked.append(host)
        is_over.wait(60)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    # The lookup of an earlier test may not have ended yet, and would answer this one.
    monkeypatch.setattr(resolving, "_lookups", {})
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    yield asked
    is_over.set()


def test_a_name_whose_lookup_hangs_is_an_error_in_time(hanging_lookups: list[str]) -> None:
    began = time.monotonic()
    with pytest.raises(WireError, match=f"no answer to the lookup of the name {NAME} within 0.3 s"):
        BrokerConnection(f"{NAME}:9092", connect_timeout_s=0.3, request_timeout_s=1).connect()
    assert time.monotonic() - began < 5
    assert hanging_lookups == [NAME]


def test_a_lookup_that_hangs_is_not_begun_twice(hanging_lookups: list[str]) -> None:
    threads = threading.active_count()
    for _ in range(3):
        with pytest.raises(WireError, match="no answer to the lookup"):
            BrokerConnection(f"{NAME}:9092", connect_timeout_s=0.1, request_timeout_s=1).connect()
    assert len(hanging_lookups) <= 1
    assert threading.active_count() <= threads + 1


def test_a_lookup_that_takes_all_the_time_does_not_say_that_the_name_has_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([0.0, 5.0])
    monkeypatch.setattr(resolving.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(resolving.NameLookup, "addresses", lambda *_: ["127.0.0.1"])
    with pytest.raises(OSError, match="no time was left to connect to localhost"):
        resolving.connect_to("localhost", 9092, timeout_s=5)


def test_a_name_without_an_address_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving.NameLookup, "addresses", lambda *_: [])
    with pytest.raises(OSError, match="the name localhost has no address"):
        resolving.connect_to("localhost", 9092, timeout_s=5)


def test_advise_and_watch_refuse_such_a_cluster_in_time(
    hanging_lookups: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure_connection, "CONNECT_S", 0.3)
    monkeypatch.setattr(secure_connection, "SEARCH_S", 1.0)
    began = time.monotonic()
    with pytest.raises(UsageError, match="no answer to the lookup of the name") as refused:
        secure_connection.first_answer([f"{NAME}:9092"] * 6, Security())
    assert "no broker answers" in str(refused.value)
    assert time.monotonic() - began < 4


def test_an_address_needs_no_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    with served_cluster(MadeCluster()) as address:
        monkeypatch.setattr("cluster.kafka_api.resolving.NameLookup", None)
        with BrokerConnection(address, connect_timeout_s=5, request_timeout_s=5) as broker:
            assert broker.api_keys()


def test_a_name_with_an_address_is_connected_to() -> None:
    with served_cluster(MadeCluster()) as address:
        port = address.rpartition(":")[2]
        with BrokerConnection(f"localhost:{port}", connect_timeout_s=5, request_timeout_s=5) as broker:
            assert broker.api_keys()


def test_a_name_that_does_not_exist_says_so() -> None:
    with pytest.raises(WireError, match=r"nobody\.invalid:9092: .*(Name|name|failure)"):
        BrokerConnection("nobody.invalid:9092", connect_timeout_s=10, request_timeout_s=1).connect()
