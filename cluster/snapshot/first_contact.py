"""Finds the first address of a cluster that answers as a broker in KRaft mode.

`ebbtide advise` and `ebbtide watch` begin here, so that both name a wrong address, port, protocol or cluster alike, and
in time.

What to try where a broker that Ebbtide did not start gives no answer.

A port that forwards to a broker which is down also accepts a connection, and then closes it. A broker that dislikes
what it reads waits for it first. So a connection on which nothing is sent shows which of both is probable. It proves
neither: above `max.connections.per.ip` Kafka closes an accepted connection unasked.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from cluster.kafka_api.connection import WireError
from cluster.kafka_api.resolving import connect_to
from cluster.snapshot.requests import ApiFacts, Refused, ask_api_versions
from cluster.snapshot.secure_connection import TLS_FAILED, SecureConnection
from cluster.snapshot.security import Security
from ebbtide.errors import UsageError

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
