"""Sends one administrative request to the cluster.

`python -m ebbtide.command workloads.admin CONFIG.json`. A request is sent once. The next broker is tried only while
no broker has received it: a request that was sent and not answered may have been carried out, and sending it again
would change the experiment.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest, DeleteRecords, SetConfig, ask
from cluster.kafka_api.connection import BrokerConnection, WireError
from cluster.kafka_api.log_dirs import MoveReplica
from ebbtide.errors import HarnessError
from ebbtide.record.files import write_atomically
from workloads.config import Endpoints, read_config
from workloads.process import ClientState, StatusFile, Stop, run_client

_CONNECT_TIMEOUT_S = 0.5
_PROBE_TIMEOUT_S = 2.0
"""How long a broker may take to answer at all, before the next one is asked instead."""


class AdminConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request; the answer is written to `result`.

    Without an answer by `timeout_s` the process fails and says what it saw.
    """

    endpoints: Endpoints
    bootstrap: tuple[str, ...]
    request: AdminRequest
    result: str
    timeout_s: float


def brokers_for(request: AdminRequest, brokers: Mapping[int, str], bootstrap: Sequence[str]) -> tuple[str, ...]:
    """Return the brokers to which a request may be sent; `brokers` are all by id.

    Any broker accepts it. Only a broker's own configs and replicas go to that broker, and deleted records to the
    leader.
    """
    if isinstance(request, DeleteRecords):
        return (brokers[request.leader],)
    if isinstance(request, MoveReplica):
        return (brokers[request.broker],)
    kind, _, name = request.resource.partition(":") if isinstance(request, SetConfig) else ("", "", "")
    return (brokers[int(name)],) if kind == "broker" else tuple(bootstrap)


def send_request(bootstrap: Sequence[str], request: AdminRequest, timeout_s: float) -> AdminAnswer:
    """Send the request to the first broker that answers.

    The request is sent once, because Kafka may have carried out a request that it did not answer.
    So each broker is first asked for its API versions. A connection alone says nothing: a wire
    proxy accepts it also for a dead broker, and the kernel for a paused one. Raises `HarnessError`
    when there is no answer.
    """
    seen: list[str] = []
    deadline = time.monotonic() + timeout_s
    for address in bootstrap:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        probe_s = min(left_s, _PROBE_TIMEOUT_S)
        with BrokerConnection(address, connect_timeout_s=_CONNECT_TIMEOUT_S, request_timeout_s=probe_s) as broker:
            try:
                broker.api_keys()
            except WireError as error:
                seen.append(str(error))
                continue
        left_s = max(deadline - time.monotonic(), 0.1)
        with BrokerConnection(address, connect_timeout_s=_CONNECT_TIMEOUT_S, request_timeout_s=left_s) as broker:
            try:
                return ask(broker, request, left_s)
            except WireError as error:
                raise HarnessError("a broker got the request and did not answer", got=str(error)) from None
    raise HarnessError(f"no broker answered within {timeout_s:.3g} s", got="; ".join(seen) or "no broker to ask")


def main(argv: Sequence[str]) -> int:
    """Send the request of the configuration file and write the answer."""
    config = read_config(Path(argv[0]), AdminConfig)

    def body(_status: StatusFile, _stop: Stop) -> ClientState:
        answer = send_request(config.bootstrap, config.request, config.timeout_s)
        write_atomically(Path(config.result), msgspec.json.encode(answer))
        return ClientState.DONE

    return run_client(config.endpoints, 0, body)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
