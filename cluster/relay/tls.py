"""TLS between clients and the relay, which ends it: brokers get plain bytes, and the relay can record them.

The certificate is made for the run, with openssl. It is its own CA, for 127.0.0.1 and localhost.
"""

from __future__ import annotations

import ssl
import subprocess
import threading
from pathlib import Path
from socket import socket

from ebbtide.errors import UsageError

CA_FILE, _KEY_FILE = "published-ca.pem", "published-key.pem"
_CHUNK_BYTES = 256 << 10
_COMMAND = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=Ebbtide"


def make_certificate(folder: Path) -> None:
    """Make `CA_FILE`, and a key that only this user can read. Raises `UsageError` without openssl."""
    (folder / _KEY_FILE).touch(0o600)
    words = [*_COMMAND.split(), "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    try:
        subprocess.run([*words, "-keyout", _KEY_FILE, "-out", CA_FILE], cwd=folder, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        what, next_ = "no certificate can be made for the published ports", "apt-get install openssl"
        raise UsageError(what, where="--publish tls:...", got=str(error), next=next_) from None


def server_context(folder: Path) -> ssl.SSLContext:
    """Return what a server with the certificate of a folder needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CA_FILE, folder / _KEY_FILE)
    return context


class TlsEnd:
    """The server's side of a connection with TLS.

    One thread may receive while another one sends: OpenSSL allows no two calls at once, and no lock is held while the
    network is waited for.
    """

    def __init__(self, plain: socket, context: ssl.SSLContext) -> None:
        """Shake hands. Raises `OSError`."""
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._state, self._order = threading.Lock(), threading.Lock()
        while not self._is_shaken():
            if not self._receive():
                raise ConnectionError("the client left during the handshake")

    def recv_into(self, buffer: bytearray) -> int:
        """Receive bytes, and return how many; 0 at the end."""
        while True:
            with self._state:
                try:
                    size: int | None = int(self._tls.read(len(buffer), buffer))
                except ssl.SSLWantReadError:
                    size = None
            self._flush()
            if size is not None:
                return size
            if not self._receive():
                return 0

    def sendall(self, data: memoryview) -> None:
        """Send all bytes."""
        with self._order:
            with self._state:
                while data:
                    data = data[self._tls.write(data) :]
                ready = self._outgoing.read()
            self._plain.sendall(ready)

    def shutdown(self, how: int) -> None:
        """Shut down the connection; what was sent with TLS ends early."""
        self._plain.shutdown(how)

    def _is_shaken(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._flush()
        return True

    def _receive(self) -> bool:
        if data := self._plain.recv(_CHUNK_BYTES):
            with self._state:
                self._incoming.write(data)
        return bool(data)

    def _flush(self) -> None:
        """Send what TLS itself has to say; most often that is nothing, and then no sender is waited for."""
        with self._state:
            if not self._outgoing.pending:
                return
        with self._order:
            with self._state:
                ready = self._outgoing.read()
            if ready:
                self._plain.sendall(ready)
