"""Asks the replicas of a partition for their logs until it is stopped, and sends what follows from them.

`python -m ebbtide.command workloads.replica_logs CONFIG.json`. Each replica has one thread and one
connection, so that a replica which answers late delays no other. The newest answer of each is in
the result file.

The process also sends administrative requests, each once: the election should not wait for another
process to start. The n-th request comes in the file `RESULT.n.request`, and its answer goes to
`RESULT.n.answer`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest
from cluster.kafka_api.connection import BrokerConnection, Refused, WireError
from cluster.kafka_api.replica_log import ReplicaAnswers, ReplicaLogInfo, ask_replica_log
from ebbtide.errors import HarnessError
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.files import write_atomically
from ebbtide.waiting import pause
from workloads.admin import send_request
from workloads.config import Endpoints, read_config
from workloads.process import ClientState, StatusFile, Stop, run_client

_CONNECT_TIMEOUT_S = 0.5
_INTERVAL_S = 0.1
_WRITE_S = 0.02


class ReplicaLogsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The partition, and the address of each of its replicas by broker id.

    `request_timeout_s` is how long to wait for one answer before the replica is asked again.
    """

    endpoints: Endpoints
    topic: str
    partition: int
    replicas: dict[int, str]
    result: str
    bootstrap: tuple[str, ...]
    request_timeout_s: float = 30.0


class ToSend(msgspec.Struct, frozen=True, kw_only=True):
    """A request to send."""

    request: AdminRequest
    timeout_s: float


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request: Kafka's answer, or why there is none."""

    answer: AdminAnswer | None = None
    why: str = ""


class _Asker(threading.Thread):
    """Asks one replica, repeatedly."""

    def __init__(self, config: ReplicaLogsConfig, broker: int, stopping: threading.Event) -> None:
        super().__init__(name=f"replica-log-{broker}", daemon=True)
        self.broker = broker
        self.log: ReplicaLogInfo | None = None
        self.error: str | None = None
        self._at = TopicPartition(config.topic, config.partition)
        self._stopping = stopping
        self._connection = BrokerConnection(
            config.replicas[broker],
            connect_timeout_s=_CONNECT_TIMEOUT_S,
            request_timeout_s=config.request_timeout_s,
        )

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.log, self.error = ask_replica_log(self._connection, self.broker, self._at), None
            except (WireError, Refused) as error:
                self.error = str(error)
            self._stopping.wait(_INTERVAL_S)
        self._connection.close()


def run(config: ReplicaLogsConfig, status: StatusFile, stop: Stop) -> ClientState:
    """Ask until stopped."""
    stopping = threading.Event()
    askers = [_Asker(config, broker, stopping) for broker in config.replicas]
    for asker in askers:
        asker.start()
    status.set_state(ClientState.RUNNING)
    written: ReplicaAnswers | None = None
    number = 1
    try:
        while not stop:
            answers = ReplicaAnswers(
                asking=True,
                logs={one.broker: one.log for one in askers if one.log is not None},
                errors={one.broker: one.error for one in askers if one.error is not None},
            )
            if answers != written:
                write_atomically(Path(config.result), msgspec.json.encode(answers))
                written = answers
            if (asked := request_file(config.result, number)).exists():
                write_atomically(answer_file(config.result, number), msgspec.json.encode(_send(config, asked)))
                number += 1
            pause(_WRITE_S)
    finally:
        stopping.set()
    return ClientState.STOPPED


def request_file(result: str, number: int) -> Path:
    """Return where the n-th request is."""
    return Path(f"{result}.{number}.request")


def answer_file(result: str, number: int) -> Path:
    """Return where the answer to the n-th request is."""
    return Path(f"{result}.{number}.answer")


def _send(config: ReplicaLogsConfig, asked: Path) -> Sent:
    to_send = msgspec.json.decode(asked.read_bytes(), type=ToSend)
    try:
        return Sent(answer=send_request(config.bootstrap, to_send.request, to_send.timeout_s))
    except HarnessError as error:
        return Sent(why=error.render())


def main(argv: Sequence[str]) -> int:
    """Ask as the configuration file says."""
    config = read_config(Path(argv[0]), ReplicaLogsConfig)
    return run_client(config.endpoints, 0, lambda status, stop: run(config, status, stop))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
