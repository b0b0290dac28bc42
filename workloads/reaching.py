"""How a client process reaches the brokers: plainly, or with TLS and SASL by a properties file.

The configuration of a client names the file and never holds a password: it is a file of the run folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from cluster.kafka_api.connection import BrokerConnection
from cluster.snapshot.secure_connection import SecureConnection
from cluster.snapshot.security import Security, security_from
from ebbtide.errors import HarnessError
from workloads.config import Endpoints

CONNECT_TIMEOUT_S = 0.5
_SECURE_CONNECT_TIMEOUT_S = 2.0
"""TLS and a login take several round trips."""


def connection_to(
    endpoints: Endpoints,
    address: str,
    *,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    request_timeout_s: float = 2.0,
) -> BrokerConnection:
    """Return a connection that is not open yet. Raises `UsageError` for a wrong properties file."""
    if endpoints.command_config is None:
        return BrokerConnection(address, connect_timeout_s=connect_timeout_s, request_timeout_s=request_timeout_s)
    return SecureConnection(
        address,
        _security(endpoints.command_config),
        connect_timeout_s=max(connect_timeout_s, _SECURE_CONNECT_TIMEOUT_S),
        request_timeout_s=request_timeout_s,
    )


def client_security(endpoints: Endpoints, bootstrap: Sequence[str]) -> dict[str, object]:
    """Return kafka-python's settings for TLS and SASL; none for a plain listener."""
    if endpoints.command_config is None:
        return {}
    security = _security(endpoints.command_config)
    settings: dict[str, object] = {"security_protocol": security.protocol}
    if security.has_tls:
        settings["ssl_context"] = security.tls_context()
    if security.login is not None:
        settings |= security.login.settings(bootstrap[0])
    return settings


def refused_settings(library: str, client: str, why: str) -> HarnessError:
    """Return the error for a client library that does not take the properties of a client."""
    return HarnessError(
        f"{library} refuses a setting",
        where=f"the properties of {client}",
        got=why,
        next="correct the value in the scenario",
    )


@cache
def _security(command_config: str) -> Security:
    return security_from(Path(command_config))
