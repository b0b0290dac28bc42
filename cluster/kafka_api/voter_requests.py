"""The requests that change who votes in a dynamic quorum (KIP-853), and how each one is encoded."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import msgspec
from kafka.protocol.api_message import ApiMessage

import cluster.kafka_api.schemas
from cluster.kafka_api.connection import BrokerConnection

LISTENER = "CONTROLLER"


class AddRaftVoterRequest(ApiMessage, load_json=cluster.kafka_api.schemas):  # type: ignore[call-arg, misc]
    """AddRaftVoter request, API key 80."""


class AddRaftVoterResponse(ApiMessage, load_json=cluster.kafka_api.schemas):  # type: ignore[call-arg, misc]
    """AddRaftVoter response, API key 80."""


class RemoveRaftVoterRequest(ApiMessage, load_json=cluster.kafka_api.schemas):  # type: ignore[call-arg, misc]
    """RemoveRaftVoter request, API key 81."""


class RemoveRaftVoterResponse(ApiMessage, load_json=cluster.kafka_api.schemas):  # type: ignore[call-arg, misc]
    """RemoveRaftVoter response, API key 81."""


class AddVoter(msgspec.Struct, frozen=True, kw_only=True, tag="add-voter"):
    """Make a controller a voter; `directory` is the directory id of its disk, as Kafka prints it."""

    voter: int
    directory: str
    host: str
    port: int


class RemoveVoter(msgspec.Struct, frozen=True, kw_only=True, tag="remove-voter"):
    """Make a voter with this id and directory id an observer."""

    voter: int
    directory: str


def ask_voters(connection: BrokerConnection, request: AddVoter | RemoveVoter, timeout_ms: int) -> Any:
    """Send the request to one broker, which forwards it; returns the response. Raises `WireError` without one."""
    directory = _uuid_of(request.directory)
    match request:
        case AddVoter(voter=voter, host=host, port=port):
            listener = AddRaftVoterRequest.Listener(name=LISTENER, host=host, port=port)
            wish = AddRaftVoterRequest(
                cluster_id=None,
                timeout_ms=timeout_ms,
                voter_id=voter,
                voter_directory_id=directory,
                listeners=[listener],
            )
            return connection.ask(wish, AddRaftVoterResponse, 0)
        case RemoveVoter(voter=voter):
            wish = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter, voter_directory_id=directory)
            return connection.ask(wish, RemoveRaftVoterResponse, 0)


def _uuid_of(text: str) -> uuid.UUID:
    """Return the UUID that Kafka prints as URL-safe base64 without padding."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
