"""An administrative request goes to the first broker that answers, and is sent once."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin import DeleteTopicsResponse
from kafka.protocol.metadata import ApiVersionsResponse
from made_cluster import served_cluster

from cluster.kafka_api.admin_requests import DeleteTopic
from cluster.kafka_api.connection import _API_VERSIONS_VERSION
from ebbtide.errors import HarnessError
from workloads import admin
from workloads.admin import send_request

DELETE_TOPICS, API_VERSIONS = 20, 18
REQUEST = DeleteTopic(topic="t")


class Broker:
    """A broker that answers API versions and a deletion; `how` it behaves otherwise.

    `dead`: a proxy in front of a dead broker closes each connection. `paused`: nothing is answered. `dies`: it closes
    the connection at the deletion.
    """

    def __init__(self, how: str) -> None:
        self.how = how
        self.port = 0
        self.asked: list[int] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer(self, api: int, request: bytes) -> tuple[Any, int] | None:
        self.asked.append(api)
        if self.how == "paused":
            return None
        if self.how == "dead" or (self.how == "dies" and api == DELETE_TOPICS):
            raise ConnectionResetError
        if api == API_VERSIONS:
            return ApiVersionsResponse(error_code=0, api_keys=[]), _API_VERSIONS_VERSION
        done = DeleteTopicsResponse.DeletableTopicResult(name="t", error_code=0)
        return DeleteTopicsResponse(throttle_time_ms=0, responses=[done]), 3


@pytest.fixture
def brokers() -> Iterator[dict[str, Broker]]:
    made = {how: Broker(how) for how in ("dead", "paused", "dies", "fine")}
    with contextlib.ExitStack() as served:
        for broker in made.values():
            served.enter_context(served_cluster(broker))
        yield made


@pytest.mark.parametrize("first", ["dead", "paused"])
def test_a_broker_that_accepts_a_connection_and_answers_nothing_is_passed_over(
    brokers: dict[str, Broker], monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr(admin, "_PROBE_TIMEOUT_S", 0.2)
    answer = send_request([brokers[first].address, brokers["fine"].address], REQUEST, 5)
    assert (answer.error, answer.broker) == ("NONE", brokers["fine"].address)
    assert DELETE_TOPICS in brokers["fine"].asked


def test_a_request_that_a_broker_may_have_carried_out_is_not_sent_again(brokers: dict[str, Broker]) -> None:
    with pytest.raises(HarnessError, match="a broker got the request and did not answer") as failed:
        send_request([brokers["dies"].address, brokers["fine"].address], REQUEST, 5)
    assert brokers["dies"].address in failed.value.render()
    assert brokers["dies"].asked == [API_VERSIONS, DELETE_TOPICS]
    assert brokers["fine"].asked == []


def test_without_any_answer_the_error_says_what_each_broker_did(brokers: dict[str, Broker]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refusing = f"127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(HarnessError, match="no broker answered within 5 s") as failed:
        send_request([brokers["dead"].address, refusing], REQUEST, 5.0)
    assert f"{refusing}: [Errno 111] Connection refused" in failed.value.render()
    assert brokers["dead"].address in failed.value.render()
