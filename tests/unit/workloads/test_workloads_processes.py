"""Client processes as the harness sees them: counters, reasons, deadlines, logins, and no survivors."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from client_configs import producer_config, sampler_config

from cluster.host.children import start_child
from cluster.host.ledger import Ledger
from cluster.kafka_api.connection import BrokerConnection
from cluster.runtime.base import StartClient
from cluster.snapshot.secure_connection import SecureConnection
from ebbtide.errors import Disturbed, HarnessError, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec, TopicSpec
from ebbtide.waiting import wait_until
from workloads.client import Client
from workloads.config import Endpoints, SamplerConfig, read_config
from workloads.forked_clients import ForkedClients
from workloads.group import Workload
from workloads.process import TEXT_BYTES, ClientState, StatusFile, Stop
from workloads.reaching import client_security, connection_to

DEAD = "127.0.0.1:9"
"""The discard port: nobody listens there, and connecting fails at once."""


@pytest.fixture(params=["alone", "forked"])
def start(ledger: Ledger, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StartClient]:
    alone = functools.partial(start_child, ledger)
    if request.param == "alone":
        yield alone
        return
    clients = ForkedClients(alone, tmp_path / "clients.log")
    yield clients.start
    clients.close()


def _sampler(client: Client, journal: Path) -> SamplerConfig:
    return sampler_config(
        endpoints=client.endpoints,
        journal=str(journal),
        described=str(journal.with_name("describer.journal")),
        brokers={1: DEAD},
    )


def test_counters_and_reasons_pass_through_the_status_file(tmp_path: Path) -> None:
    path = tmp_path / "status"
    assert StatusFile.open(path) is None
    written = StatusFile.create(path, 3)
    read = StatusFile.open(path)
    assert read is not None
    assert read.state == ClientState.STARTING
    written.put(2, 1 << 62)
    written.set_state(ClientState.FAILED, "é" * TEXT_BYTES)
    assert (read.get(0), read.get(2)) == (0, 1 << 62)
    assert read.state == ClientState.FAILED
    assert read.text.startswith("éé")
    assert len(read.text.encode()) <= TEXT_BYTES


def test_a_client_stops_on_request_and_says_so(start: StartClient, tmp_path: Path) -> None:
    client = Client("sampler", "workloads.sampler", tmp_path, tmp_path / "log")
    client.start(_sampler(client, tmp_path / "j"), start)
    client.await_state([ClientState.RUNNING], 20)
    client.request_stop()
    end = client.join(time.monotonic() + 10)
    assert (end.exit_code, end.state, end.is_clean) == (0, ClientState.STOPPED, True)


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGTERM, "in order"),
        (signal.SIGKILL, "signal SIGKILL; did memory run out.*dmesg"),
    ],
)
def test_a_client_that_nobody_asked_to_end_was_ended_from_outside(
    start: StartClient, tmp_path: Path, number: signal.Signals, how: str
) -> None:
    client = Client("sampler", "workloads.sampler", tmp_path, tmp_path / "log")
    client.start(_sampler(client, tmp_path / "j"), start)
    client.await_state([ClientState.RUNNING], 20)
    client.check()
    assert client._process is not None
    os.kill(client._process.pid, number)
    wait_until(lambda: not client.is_alive, awaited="the client to end", timeout_s=20)
    with pytest.raises(Disturbed, match=f"outside of the run ended the process of sampler .*{how}"):
        client.check()


def test_a_client_whose_disk_is_full_stops_with_exit_code_3_and_its_reason(start: StartClient, tmp_path: Path) -> None:
    client = Client("producer-1", "workloads.producer", tmp_path, tmp_path / "log")
    config = producer_config(endpoints=client.endpoints, journal="/dev/full", bootstrap=(DEAD,))
    client.start(config, start)
    with pytest.raises(HarnessError, match="exit code 3") as error:
        client.await_state([ClientState.RUNNING], 20)
    assert "No space left on device" in str(error.value)
    assert client.state == ClientState.FAILED


def test_a_client_that_cannot_start_shows_its_last_words(start: StartClient, tmp_path: Path) -> None:
    client = Client("x", "workloads.nothing", tmp_path, tmp_path / "log")
    client.start(_sampler(client, tmp_path / "j"), start)
    with pytest.raises(HarnessError, match="No module named") as error:
        client.await_state([ClientState.RUNNING], 20)
    assert (error.value.where, error.value.next) == (str(tmp_path), f"zcat -f {tmp_path / 'log'}*")


def test_a_warning_of_the_client_library_is_in_the_clients_log(tmp_path: Path) -> None:
    code = """
import logging, sys
from workloads.config import Endpoints
from workloads.process import ClientState, run_client

def body(*_):
    logging.getLogger("kafka.coordinator").warning("session expired")
    logging.getLogger("kafka.coordinator").info("joined")
    return ClientState.DONE

run_client(Endpoints(status=sys.argv[1], stop=sys.argv[2]), 0, body)
"""
    words = [sys.executable, "-c", code, str(tmp_path / "status"), str(tmp_path / "stop")]
    log = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    assert re.fullmatch(r"[0-9-]{10}T[0-9:.]{12}Z WARNING kafka.coordinator - session expired\n", log)


def test_a_client_that_does_not_stop_in_time_is_killed(start: StartClient, tmp_path: Path) -> None:
    client = Client("sampler", "workloads.sampler", tmp_path, tmp_path / "log")
    client.start(_sampler(client, tmp_path / "j"), start)
    client.await_state([ClientState.RUNNING], 20)
    end = client.join(time.monotonic() + 0.1)
    assert (end.exit_code, end.is_clean) == (-signal.SIGKILL, False)
    client.kill()


def test_a_producer_gives_up_when_no_broker_answers(start: StartClient, tmp_path: Path) -> None:
    client = Client("producer-1", "workloads.producer", tmp_path, tmp_path / "log")
    config = producer_config(
        endpoints=client.endpoints, journal=str(tmp_path / "j"), bootstrap=(DEAD,), start_timeout_s=0.3
    )
    client.start(config, start)
    with pytest.raises(HarnessError, match="a leader for every partition of t") as error:
        client.await_state([ClientState.RUNNING], 20)
    assert DEAD in str(error.value)


def test_a_configuration_with_an_unknown_key_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    endpoints = Endpoints(status="s", stop="t")
    config = sampler_config(endpoints=endpoints, journal="j", described="d", brokers={}, topics={})
    path.write_bytes(msgspec.json.encode({**msgspec.to_builtins(config), "intervall_ms": 5}))
    with pytest.raises(UsageError, match="intervall_ms"):
        read_config(path, SamplerConfig)


def test_a_workload_without_topics_created_does_not_start(start: StartClient, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="before its topics"):
        _workload(start, tmp_path).start()


def test_topics_that_cannot_be_created_in_time_say_what_was_seen(start: StartClient, tmp_path: Path) -> None:
    workload = _workload(start, tmp_path)
    with pytest.raises(HarnessError, match="refused"):
        workload.create_topics(timeout_s=0.5)
    workload.close()


def _workload(
    start: StartClient,
    record: Path,
    producers: list[ProducerSpec] | None = None,
    consumers: list[ConsumerSpec] | None = None,
) -> Workload:
    return Workload(
        record=RecordFolder(record),
        run_id="run",
        start_client=start,
        bootstrap=[DEAD],
        topics={"t": TopicSpec()},
        assignments={"t": [(1, 2, 3)]},
        producers=producers or [],
        consumers=consumers or [],
    )


@pytest.fixture(scope="module")
def _next_test_has_the_handler_of_before() -> Iterator[None]:
    """Fail if the test left another handler. A fixture of a module ends after those of its tests."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("_next_test_has_the_handler_of_before")
def test_a_client_is_asked_to_stop_by_sigterm(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    stop = Stop(str(tmp_path / "stop"))
    assert signal.getsignal(signal.SIGTERM) is not before
    assert not stop
    signal.raise_signal(signal.SIGTERM)
    assert stop


PLAIN = Endpoints(status="s", stop="t")
LOGIN = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
    'sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="w" password="hush";\n'
)


@pytest.fixture
def secured(tmp_path: Path) -> Endpoints:
    path = tmp_path / "client.properties"
    path.write_text(LOGIN)
    return Client("c", "m", tmp_path, tmp_path / "log", command_config=str(path)).endpoints


def test_a_client_of_an_own_cluster_connects_plainly() -> None:
    assert client_security(PLAIN, ("b:9092",)) == {}
    connection = connection_to(PLAIN, "a:1")
    assert type(connection) is BrokerConnection


def test_a_client_of_a_secured_cluster_logs_in(secured: Endpoints) -> None:
    assert isinstance(connection_to(secured, "a:1"), SecureConnection)
    assert client_security(secured, ("b:9092",)) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "w",
        "sasl_plain_password": "hush",
    }


def test_the_configuration_of_a_client_has_no_password(secured: Endpoints) -> None:
    assert b"hush" not in msgspec.json.encode(secured)


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    gone = Endpoints(status="s", stop="t", command_config=str(tmp_path / "gone.properties"))
    with pytest.raises(UsageError):
        client_security(gone, ("b:9092",))
