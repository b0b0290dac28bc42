"""TLS with clients ends in the relay: brokers and the spool get plain bytes, both ways at once."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_frames import received, request, response

from cluster.relay.program import Relay
from cluster.relay.spool import SpoolReader, SpoolWriter, new_spool
from cluster.relay.tls import CA_FILE, make_certificate, server_context
from ebbtide.errors import UsageError
from ebbtide.waiting import wait_until

BODY = bytes(range(256)) * 8000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate."""
    made = tmp_path_factory.mktemp("tls")
    make_certificate(made)
    return made


class Ends:
    """A broker, and a relay before it that records."""

    def __init__(self, folder: Path) -> None:
        with new_spool() as (writer, reader):
            self.writer, self.reader = SpoolWriter(writer), SpoolReader(reader)
        self.relay = Relay(self.writer, server_context(folder))
        self._ports, self._broker = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
        self.relay.listen(self._ports, self._broker.getsockname())
        self._trust = ssl.create_default_context(cafile=folder / CA_FILE)

    def client(self, name: str = "127.0.0.1") -> ssl.SSLSocket:
        return self._trust.wrap_socket(self.plain_client(), server_hostname=name)

    def plain_client(self) -> socket.socket:
        return socket.create_connection(self._ports.getsockname(), timeout=10)

    def broker(self) -> socket.socket:
        end, _ = self._broker.accept()
        end.settimeout(10)
        return end

    def close(self) -> None:
        self._broker.close()
        self.reader._writer.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: not self.writer._is_read, awaited="the writer to see it", timeout_s=10)
        for end in (self.reader._writer, self.writer._reader):
            end.close()


@pytest.fixture
def ends(folder: Path) -> Iterator[Ends]:
    found = Ends(folder)
    yield found
    found.close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_client_that_trusts_the_certificate_talks_both_ways_at_once_and_is_recorded(ends: Ends, name: str) -> None:
    asked, answered = request(0, 1, BODY), response(1, BODY[::-1])
    with ends.client(name) as client, ends.broker() as broker:
        client.sendall(request(0, 0))
        assert received(broker, 12) == request(0, 0)
        threads = [threading.Thread(target=end.sendall, args=(data,)) for end, data in ((client, asked),)]
        threads.append(threading.Thread(target=broker.sendall, args=(response(0, BODY),)))
        for thread in threads:
            thread.start()
        assert received(client, len(BODY) + 8) == response(0, BODY)
        assert received(broker, len(asked)) == asked
        broker.sendall(answered)
        assert received(client, len(answered)) == answered
        for thread in threads:
            thread.join()
    ends.relay.end()
    entries = list(ends.reader.entries())
    assert b"".join(one.data for one in entries if one.kind == "request") == request(0, 0) + asked
    assert b"".join(one.data for one in entries if one.kind == "response") == response(0, BODY) + answered


def test_a_client_that_does_not_trust_it_is_refused(ends: Ends) -> None:
    with ends.plain_client() as plain, pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_client_without_tls_is_cut_off(ends: Ends) -> None:
    with ends.plain_client() as client:
        client.sendall(request(0, 1))
        assert b"answer" not in received(client, 100)


def test_only_the_user_reads_the_key(folder: Path) -> None:
    (key,) = folder.glob("*key*")
    assert key.stat().st_mode & 0o777 == 0o600


def test_without_openssl_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as raised:
        make_certificate(tmp_path)
    assert raised.value.next == "apt-get install openssl"
