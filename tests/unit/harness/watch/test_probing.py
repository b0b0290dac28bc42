"""A cluster that cannot be watched is refused with one clear error, soon."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from made_cluster import METADATA, MadeCluster, served_cluster

from cluster.snapshot import secure_connection
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
    monkeypatch.setattr(secure_connection, "FIRST_ANSWER_S", 0.2)
    began = time.monotonic()
    with pytest.raises(UsageError, match="no answer within"):
        probe_cluster([silent, silent], None, None)
    assert time.monotonic() - began < 2


def test_a_broker_that_stops_answering_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = MadeCluster()
    cluster.silent = frozenset({METADATA})
    monkeypatch.setattr(probing, "_ANSWER_S", 0.2)
    with served_cluster(cluster) as address, pytest.raises(UsageError, match="the broker stopped answering"):
        probe_cluster([address], None, None)


def test_a_cluster_in_zookeeper_mode_is_named_as_advise_names_it() -> None:
    cluster = MadeCluster()
    cluster.keys = (0, 1, 3, 4, 5, 6, 7, 18, 32)
    with served_cluster(cluster) as address, pytest.raises(UsageError, match="runs with ZooKeeper"):
        probe_cluster([address], None, None)


def test_a_listener_that_wants_tls_is_named_as_advise_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"\x15\x03\x03\x00\x02\x02\x50")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(UsageError, match=r"security\.protocol=SSL"):
            probe_cluster([f"127.0.0.1:{server.getsockname()[1]}"], None, None)
        thread.join(2.0)


def test_a_host_that_nobody_knows_is_named() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.invalid"):
        probe_cluster(["nowhere.invalid:9092"], None, None)
