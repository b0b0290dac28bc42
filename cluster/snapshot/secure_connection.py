"""A connection to a broker with TLS and SASL, whose errors say what is probably wrong.

A wrong port, a wrong protocol and a refused login all look alike on the wire: the peer closes the connection, or
answers something that is no Kafka. So an error names the likely reason, and what to try next.
"""

from __future__ import annotations

import contextlib
import ssl

from kafka.errors import for_code
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from cluster.kafka_api.connection import BrokerConnection, WireError
from cluster.snapshot.security import Login, Security
from ebbtide.errors import UsageError
from ebbtide.shown_text import HIDDEN

_ANSWERS = {
    # The first four bytes of an answer, read as its length.
    b"\x15\x03": "the answer is TLS; set security.protocol=SSL or SASL_SSL in the --command-config file",
    b"HTTP": "the answer is HTTP: that is not a port of Kafka",
}
TLS_FAILED = "TLS failed"


class LoginRefused(UsageError):
    """The broker refused the login, or the mechanism."""


class SecureConnection(BrokerConnection):
    """A `BrokerConnection` that first makes TLS and the SASL login."""

    def __init__(self, address: str, security: Security, *, connect_timeout_s: float, request_timeout_s: float) -> None:
        super().__init__(address, connect_timeout_s=connect_timeout_s, request_timeout_s=request_timeout_s)
        self._security = security

    def set_request_timeout(self, timeout_s: float) -> None:
        """Wait this long for each later answer."""
        self._request_timeout_s = timeout_s
        if self._socket is not None:
            self._socket.settimeout(timeout_s)

    def connect(self) -> None:
        """Connect unless connected. Raises `WireError`, and `UsageError` for a refused login."""
        if self._socket is not None:
            return
        super().connect()
        try:
            if self._security.has_tls:
                self._encrypt()
            if self._security.login is not None:
                self._log_in(self._security.login)
        except BaseException:
            self.close()
            raise

    def _encrypt(self) -> None:
        assert self._socket is not None
        plain = self._socket
        context = self._security.tls_context()
        plain.settimeout(self._connect_timeout_s)
        try:
            self._socket = context.wrap_socket(plain, server_hostname=self._host)
        except ssl.SSLCertVerificationError as error:
            raise UsageError(
                "the broker's certificate is not trusted",
                where=self.address,
                got=error.verify_message or str(error),
                allowed="a certificate that ssl.truststore.location vouches for, with this host name",
            ) from None
        except OSError as error:
            reason = getattr(error, "reason", None) or str(error)
            raise WireError(f"{self.address}: {TLS_FAILED} ({reason})") from None
        finally:
            if self._socket is plain:
                with contextlib.suppress(OSError):
                    plain.close()
        self._socket.settimeout(self._request_timeout_s)

    def _log_in(self, login: Login) -> None:
        shaken = self.ask(SaslHandshakeRequest(mechanism=login.mechanism), SaslHandshakeResponse, 1)
        if shaken.error_code:
            raise LoginRefused(
                "the broker does not accept this SASL mechanism",
                where=self.address,
                got=login.mechanism,
                allowed=", ".join(shaken.mechanisms) or "none: the listener has no SASL",
            )
        mechanism = get_sasl_mechanism(login.mechanism)(
            sasl_plain_username=login.username, sasl_plain_password=login.password, sasl_mechanism=login.mechanism
        )
        try:
            while not mechanism.is_done():
                asked = SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes())
                answer = self.ask(asked, SaslAuthenticateResponse, 0)
                if answer.error_code:
                    raise self._refused(login, answer.error_message or str(for_code(answer.error_code).message))
                mechanism.receive(answer.auth_bytes)
            if not mechanism.is_authenticated():
                raise self._refused(login, "the login did not end as authenticated")
        except (ValueError, KeyError) as error:
            raise self._refused(login, str(error)) from None

    def _refused(self, login: Login, got: str) -> LoginRefused:
        return LoginRefused(
            "the broker refused the login",
            where=self.address,
            got=f"{login.mechanism}: {got.replace(login.password, HIDDEN) if login.password else got}",
            allowed="the username and password in sasl.jaas.config",
        )

    def _read(self, count: int) -> bytes:
        try:
            data = super()._read(count)
        except TimeoutError:
            raise OSError(f"no answer within {self._request_timeout_s:g} s") from None
        if count == 4:
            for begins, meaning in _ANSWERS.items():
                if data.startswith(begins):
                    raise OSError(meaning)
        return data
