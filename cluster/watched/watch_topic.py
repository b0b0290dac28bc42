"""The topic that a watch makes on somebody else's cluster, as an entry of the ledger.

Its name has the prefix `ebbtide-watch-` and random digits, and Kafka refuses to make it where it exists. So what is
deleted by the entry was made by it.
"""

from __future__ import annotations

import errno

import msgspec

from cluster.kafka_api.admin_requests import DeleteTopic, ask
from cluster.kafka_api.connection import (
    AUTHORIZATION_ERRORS,
    INVALID_CONFIG,
    NONE,
    BrokerConnection,
    WireError,
    error_name,
)
from cluster.snapshot.secure_connection import SecureConnection
from cluster.snapshot.security import security_of
from ebbtide.errors import EbbtideError, HarnessError, UsageError

PREFIX = "ebbtide-watch-"
_EXISTS = 36
_CONNECT_S, _ANSWER_S, _TRIES_S = 2.0, 10.0, 2.0
_NEEDED = {"Read": 3, "Write": 4, "Delete": 6, "Describe": 8}
"""Kafka's codes of the operations, which are the bits of an answer."""
_GONE = ("NONE", "UNKNOWN_TOPIC_OR_PARTITION")
_DENIED_NAMES = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")


class TopicRefused(UsageError):
    """Kafka answered that it did not make the topic."""


class SettingsRefused(TopicRefused):
    """Kafka did not make the topic because of its settings; `message` is what it says of them, which may be empty."""

    def __init__(self, what: str, *, message: str, where: str | None = None, got: str | None = None) -> None:
        super().__init__(what, where=where, got=got)
        self.message = message


class WatchTopic(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="watch-topic"):
    """Ledger entry: a topic on the cluster at `bootstrap`, which the watch `run_id` made.

    `command_config` is the properties file with which clients reach the cluster.
    """

    run_id: str
    name: str
    bootstrap: tuple[str, ...]
    command_config: str | None = None

    def undo(self) -> bool:
        """Delete the topic; returns True if it was there.

        Raises `HarnessError` that names the topic and how to delete it, when no broker did.
        """
        seen, first = "no broker to ask", ""
        for address in self.bootstrap:
            try:
                with connection_to(address, self.command_config) as broker:
                    answer = ask(broker, DeleteTopic(topic=self.name), _TRIES_S)
            except EbbtideError as error:
                # The error below gets one line of it, and the command that helps.
                seen, first = error.as_clause(), f"{error.next}, then " if error.next else ""
                continue
            except WireError as error:
                seen, first = str(error), ""
                continue
            if answer.error in _GONE:
                return answer.error == "NONE"
            seen = f"{address} answers {answer.error} {answer.message}".rstrip()
            first = "give this user the right Delete on it, then " if answer.error in _DENIED_NAMES else ""
        raise HarnessError(
            f"no broker deleted the topic {self.name}",
            got=seen,
            next=f"{first}ebbtide clean, or kafka-topics.sh --bootstrap-server {self.bootstrap[0]} "
            f"--delete --topic {self.name}",
        )

    def describe(self) -> str:
        """Return how messages name the topic."""
        return f"topic {self.name} on the cluster at {', '.join(self.bootstrap)}"


def connection_to(
    address: str, command_config: str | None, *, request_timeout_s: float = _ANSWER_S
) -> SecureConnection:
    """Return a connection to a node of somebody else's cluster, which is not open yet.

    Raises `UsageError` for a properties file that cannot be used.
    """
    return SecureConnection(
        address,
        security_of(command_config),
        connect_timeout_s=min(_CONNECT_S, request_timeout_s),
        request_timeout_s=request_timeout_s,
    )


def make_topic(
    broker: BrokerConnection, name: str, *, partitions: int, replication_factor: int, config: dict[str, str]
) -> None:
    """Ask a broker once to make a topic; Kafka chooses the replicas.

    Raises `FileExistsError` for a topic that exists, `TopicRefused` with Kafka's reason, which may be its settings,
    and `WireError` without an answer.
    """
    answer = broker.create_topic(name, (), config, partitions=partitions, replication_factor=replication_factor)
    if answer.error_code == _EXISTS:
        raise FileExistsError(errno.EEXIST, "a topic of this name exists", name)
    if answer.error_code != NONE:
        said = f"{error_name(answer.error_code)} {answer.error_message or ''}".rstrip()
        what = f"Kafka refuses to make the topic {name}"
        if answer.error_code == INVALID_CONFIG:
            raise SettingsRefused(what, message=answer.error_message or "", where=broker.address, got=said)
        is_denied = answer.error_code in AUTHORIZATION_ERRORS
        raise TopicRefused(
            what,
            where=broker.address,
            got=said,
            next=f"give this user the rights Create and Delete on topics with the prefix {PREFIX}"
            if is_denied
            else None,
        )


def missing_rights(broker: BrokerConnection, name: str) -> list[str] | None:
    """Return the operations on the topic that this user lacks and a watch needs. Raises `WireError`.

    Empty also where the broker does not say; None while the broker does not know the topic yet.
    """
    (answer,) = broker.ask_metadata([name], with_rights=True).topics
    if answer.error_code in AUTHORIZATION_ERRORS:
        return ["Describe"]
    if answer.error_code != NONE:
        return None
    allowed: set[int] | None = answer.authorized_operations
    if allowed is None:
        return []
    return [word for word, code in _NEEDED.items() if code not in allowed]
