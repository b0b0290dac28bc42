"""A connection to a broker with TLS and SASL, whose errors say what is probably wrong.

A wrong port, a wrong protocol and a refused login all look alike on the wire: the peer closes the connection, or
answers something that is no Kafka. So an error names the likely reason, and what to try next.

Finds the first address of a cluster that answers as a broker in KRaft mode.

`ebbtide advise` and `ebbtide watch` begin here, so that both name a wrong address, port, protocol or cluster alike, and
in time.

What to try where a broker that Ebbtide did not start gives no answer.

A port that forwards to a broker which is down also accepts a connection, and then closes it. A broker that dislikes
what it reads waits for it first. So a connection on which nothing is sent shows which of both is probable. It proves
neither: above `max.connections.per.ip` Kafka closes an accepted connection unasked.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Sequence

from kafka.errors import for_code
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from cluster.kafka_api.connection import BrokerConnection, Refused, WireError
from cluster.kafka_api.resolving import connect_to
from cluster.snapshot.requests import ApiFacts, ask_api_versions
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
        mechanism = get_sasl_mechanism(login.mechanism)(**login.settings(self.address))
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
            allowed="the username and password in sasl.jaas.config"
            if login.token is None
            else "a token that it trusts",
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


_DROPPED = ("closed the connection", "reset by peer", TLS_FAILED)
_START = "start that broker, or name one that is up in --bootstrap"
_CONNECT_S = 1.0
_IDLE_S = 1.0
"""A forwarded port closes at once if it does not reach its broker; Kafka keeps an idle connection for minutes."""


def hint_for(error: WireError, address: str, security: Security, *, answered: bool) -> str | None:
    """Return what to try after a failed request; None if the error says all that is known.

    `answered`: an earlier request of the connection was answered.
    """
    if "Connection refused" in str(error):
        return _START
    if not any(words in str(error) for words in _DROPPED):
        return None
    if _is_closed_unasked(address):
        why = f"{address} closes connections before anything is sent, so it probably leads to no broker that is up"
        return f"{_START} ({why})"
    if answered and security.login is None:
        return "the listener may require a login: set security.protocol and sasl.* in the --command-config file"
    return f"is security.protocol right for the listener {address}? (--command-config)"


def _is_closed_unasked(address: str) -> bool:
    """Whether the address refuses or closes a connection on which nothing is sent."""
    host, _, port = address.rpartition(":")
    try:
        with connect_to(host.strip("[]"), int(port), _CONNECT_S) as idle:
            idle.settimeout(_IDLE_S)
            return not idle.recv(1)
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    except OSError:  # also TimeoutError
        return False


CONNECT_S, FIRST_ANSWER_S = 3.0, 4.0
"""Deadlines for one address, so that a wrong one is an error within 15 s."""
SEARCH_S = 9.0
"""How long all addresses together are tried."""

_LEFT_MIN_S = 0.5
_METADATA, _CONTROLLED_SHUTDOWN, _DESCRIBE_QUORUM = 3, 7, 55


def first_answer(bootstrap: Sequence[str], security: Security) -> tuple[SecureConnection, ApiFacts]:
    """Return an open connection to the first broker that answers, and what it says of itself.

    Raises `UsageError` with what each address answered. No address is asked after `SEARCH_S`. The last one may still
    take its own deadlines, and a second connection that finds its hint.
    """
    end, failures = time.monotonic() + SEARCH_S, list[str]()
    hints = list[str]()
    for address in bootstrap:
        left_s = end - time.monotonic()
        if left_s < _LEFT_MIN_S:
            failures.append(f"{address}: not asked, because the others took {SEARCH_S:g} s")
            continue
        connection = SecureConnection(
            address, security, connect_timeout_s=min(CONNECT_S, left_s), request_timeout_s=min(FIRST_ANSWER_S, left_s)
        )
        try:
            # Old brokers answer the newer version in the form of this one, which cannot be told apart.
            _check_node(address, connection.api_keys())
            connection.set_request_timeout(max(_LEFT_MIN_S, min(FIRST_ANSWER_S, end - time.monotonic())))
            return connection, ask_api_versions(connection)
        except (WireError, Refused) as error:
            connection.close()
            failures.append(str(error) if isinstance(error, WireError) else f"{address}: {error}")
            if isinstance(error, WireError) and (hint := hint_for(error, address, security, answered=False)):
                hints.append(hint)
        except BaseException:
            connection.close()
            raise
    raise UsageError(
        "no broker answers",
        where="--bootstrap",
        got="; ".join(failures),
        allowed="HOST:PORT of a broker's client listener",
        next="; or ".join(dict.fromkeys(hints)) or None,
    )


def _check_node(address: str, keys: frozenset[int]) -> None:
    """Raise `UsageError` for a node that is no broker of a KRaft cluster."""
    if _METADATA not in keys and _DESCRIBE_QUORUM in keys:
        raise UsageError(
            "that is a listener of controllers",
            where="--bootstrap",
            got=address,
            allowed="the client listener of a broker",
        )
    if _METADATA not in keys:
        raise UsageError("that is not a Kafka broker", where="--bootstrap", got=f"{address} does not answer Metadata")
    if _DESCRIBE_QUORUM not in keys:
        with_zookeeper = _CONTROLLED_SHUTDOWN in keys
        raise UsageError(
            "the cluster runs with ZooKeeper, whose protocol Ebbtide does not know"
            if with_zookeeper
            else "the cluster has no KRaft quorum that can be described",
            where="--bootstrap",
            got=address,
            allowed="a cluster in KRaft mode, from Kafka 3.3 on",
        )
