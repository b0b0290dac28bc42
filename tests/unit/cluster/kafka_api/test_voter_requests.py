"""The requests of KIP-853 as bytes: kafka-python has no definition of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.kafka_api.admin_requests import AdminAnswer, ask
from cluster.kafka_api.connection import BrokerConnection
from cluster.kafka_api.metadata_log import AddVoter, RemoveVoter

DIRECTORY = "AAECAwQFBgcICQoLDA0ODw"
"""The bytes 0 to 15."""
BYTES_OF_IT = bytes(range(16)).hex()


class Broker:
    """Keeps what it is asked, and answers with one error code."""

    address = "broker-1:9092"

    def __init__(self, error_code: int) -> None:
        self.asked: list[tuple[str, str]] = []
        self._error_code = error_code

    def ask(self, request: Any, kind: type, version: int) -> Any:
        self.asked.append((kind.__name__, request.encode(version=version).hex()))
        return SimpleNamespace(error_code=self._error_code, error_message="why")


def sent(request: AddVoter | RemoveVoter, error_code: int = 0) -> tuple[list[tuple[str, str]], AdminAnswer]:
    broker = Broker(error_code)
    answer = ask(cast(BrokerConnection, broker), request, 2.0)
    return broker.asked, answer


def test_a_voter_is_added_with_its_disk_and_its_listener() -> None:
    asked, answer = sent(AddVoter(voter=101, directory=DIRECTORY, host="h", port=9093))
    [(kind, request)] = asked
    assert kind == "AddRaftVoterResponse"
    # No cluster id, 2,000 ms, voter 101, one listener: CONTROLLER at h:9093.
    listener = "0b" + b"CONTROLLER".hex() + "02" + b"h".hex() + "2385" + "00"
    assert request.endswith("00" + "000007d0" + "00000065" + BYTES_OF_IT + "02" + listener + "00")
    assert answer.error == "NONE"


@pytest.mark.parametrize(("code", "name"), [(0, "NONE"), (126, "DUPLICATE_VOTER"), (127, "VOTER_NOT_FOUND")])
def test_a_voter_is_removed_with_its_disk(code: int, name: str) -> None:
    asked, answer = sent(RemoveVoter(voter=101, directory=DIRECTORY), code)
    [(kind, request)] = asked
    assert kind == "RemoveRaftVoterResponse"
    assert request.endswith("00" + "00000065" + BYTES_OF_IT + "00")
    assert (answer.error, answer.broker) == (name, "broker-1:9092")
