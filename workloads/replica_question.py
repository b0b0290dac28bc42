"""The process that asks replicas for their logs, as the harness sees it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest
from cluster.kafka_api.replica_log import ReplicaAnswers
from ebbtide.errors import HarnessError
from ebbtide.record.files import write_atomically
from ebbtide.waiting import wait_until
from workloads.client import Client
from workloads.replica_logs import Sent, ToSend, answer_file, request_file


class ReplicaQuestion:
    """Replicas that a client process asks for their logs until `close`."""

    def __init__(self, client: Client, result: Path) -> None:
        self._client = client
        self._result = result
        self._sent = 0

    def answers(self) -> ReplicaAnswers:
        """Return the newest answers. Raises `HarnessError` when the process died."""
        self._client.check()
        try:
            return msgspec.json.decode(self._result.read_bytes(), type=ReplicaAnswers)
        except FileNotFoundError:
            return ReplicaAnswers()

    def administer(self, request: AdminRequest, timeout_s: float) -> AdminAnswer:
        """Have the process send an administrative request.

        Raises `HarnessError` that says why there is no answer.
        """
        self._sent += 1
        path = answer_file(str(self._result), self._sent)
        path.unlink(missing_ok=True)
        to_send = ToSend(request=request, timeout_s=timeout_s)
        write_atomically(request_file(str(self._result), self._sent), msgspec.json.encode(to_send))

        def is_there() -> bool:
            self._client.check()
            return path.exists()

        wait_until(is_there, awaited="Kafka's answer", timeout_s=timeout_s + 5.0)
        sent = msgspec.json.decode(path.read_bytes(), type=Sent)
        if sent.answer is None:
            raise HarnessError(sent.why)
        return sent.answer

    def close(self) -> None:
        """End the process."""
        self._client.kill()
