"""What to try where a broker that Ebbtide did not start gives no answer.

A port that forwards to a broker which is down also accepts a connection, and then closes it. A broker that dislikes
what it reads waits for it first. So a connection on which nothing is sent shows which of both is probable. It proves
neither: above `max.connections.per.ip` Kafka closes an accepted connection unasked.
"""

from __future__ import annotations

from cluster.kafka_api.connection import WireError
from cluster.kafka_api.resolving import connect_to
from cluster.snapshot.secure_connection import TLS_FAILED
from cluster.snapshot.security import Security

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
