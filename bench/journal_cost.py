"""Measures what journalling costs a producer of each client library: `python -m bench.journal_cost`.

Run it from the root of a checkout. Rounds alternate between the bare library and the workload's producer, with the same
settings, against one real Kafka node on loopback. Each round has its own process; the time runs from the first
hand-over to the last answer. A Java producer is Kafka's VerifiableProducer, which prints each answer; the bare one
prints into a file, and its time runs from the first answer to the last. Target for each library: the ratio of the
medians is at least 0.8.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import get_args

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.measured_on import measured_on
from cluster.runtime.verifiable_tools import ToolCommand, ensure_tools
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.payload import encode
from ebbtide.properties_file import render
from ebbtide.record.files import JOURNAL_DIR
from ebbtide.scenario.client_libraries import ClientLibrary
from tests.live.single_node import VERSION, single_node
from workloads import java_producer, librdkafka_producer, producer
from workloads.config import Endpoints, NewTopic, ProducerConfig
from workloads.library_settings import java_settings
from workloads.settings import format_value
from workloads.topics import create_topics

TARGET = 0.8
_MODULES = {"kafka-python": producer, "librdkafka": librdkafka_producer, "java": java_producer}


def time_bare_kafka_python(config: ProducerConfig) -> float:
    """Return the seconds of a bare kafka-python producer for the records, without a journal or callbacks."""
    sender = producer.open_producer(config, config.bootstrap)
    payload = encode(config.run_id, config.id, 0, 0, config.payload_bytes)
    assert config.count is not None
    start = time.perf_counter()
    for number in range(config.count):
        sender.send(config.topic, payload, None, None, number % config.partitions)
    sender.flush()
    return time.perf_counter() - start


def time_bare_librdkafka(config: ProducerConfig) -> float:
    """Return the seconds of a bare librdkafka producer for the records, without a journal or callbacks."""
    sender = librdkafka_producer.open_producer(config, config.bootstrap)
    payload = encode(config.run_id, config.id, 0, 0, config.payload_bytes)
    assert config.count is not None
    start = time.perf_counter()
    for number in range(config.count):
        while True:
            try:
                sender.produce(config.topic, payload, partition=number % config.partitions)
            except BufferError:  # its queue is full
                sender.poll(0.01)
            else:
                break
    sender.flush()
    return time.perf_counter() - start


def time_bare_java(config: ProducerConfig) -> float:
    """Return the seconds from the first to the last answer of Kafka's VerifiableProducer, which prints into a file."""
    assert config.java is not None
    printed, settings = Path(f"{config.endpoints.status}.txt"), Path(f"{config.endpoints.status}.properties")
    settings.write_text(render({name: format_value(value) for name, value in java_settings(config).items()}))
    with printed.open("wb") as output:
        command = java_producer.command_of(config, config.java, settings, config.bootstrap)
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=output)
    lines = [json.loads(line) for line in printed.read_text().splitlines() if line.startswith("{")]
    answered = [line["timestamp"] for line in lines if line["name"] == "producer_send_success"]
    assert len(answered) == config.count
    return (max(answered) - min(answered)) / 1e3


_BARE: dict[ClientLibrary, Callable[[ProducerConfig], float]] = {
    "kafka-python": time_bare_kafka_python,
    "librdkafka": time_bare_librdkafka,
    "java": time_bare_java,
}


def time_journalled_producer(record: Path) -> float:
    """Return the seconds of the record's only producer.

    They last from the first hand-over to the last answer.
    """
    convert_journals(record)
    (file,) = (record / "sends").glob("*.parquet")
    table = pq.read_table(file, columns=["sent_ns", "done_ns", "status"])
    assert pc.all(pc.equal(table["status"], "acked")).as_py()
    return (pc.max(table["done_ns"]).as_py() - pc.min(table["sent_ns"]).as_py()) / 1e9


def measure(
    kind: str,
    client: ClientLibrary,
    number: int,
    folder: Path,
    address: str,
    java: ToolCommand | None,
    options: argparse.Namespace,
) -> float:
    """Run one round in its own process; returns records per second."""
    record = folder / f"{client}-{kind}-{number}"
    (record / JOURNAL_DIR).mkdir(parents=True)
    config = ProducerConfig(
        endpoints=Endpoints(status=str(record / "status"), stop=str(record / "stop")),
        journal=str(record / JOURNAL_DIR / "producer-1.journal"),
        run_id="bench",
        bootstrap=(address,),
        id=1,
        topic="bench",
        partitions=options.partitions,
        acks=options.acks,
        count=options.count,
        payload_bytes=options.payload_bytes,
        java=java,
    )
    path = record / "config.json"
    path.write_bytes(msgspec.json.encode(config))
    module = ["bench.journal_cost", "--bare", client] if kind == "bare" else [_MODULES[client].__name__]
    done = subprocess.run([sys.executable, "-m", *module, str(path)], check=True, capture_output=True, text=True)
    seconds = json.loads(done.stdout) if kind == "bare" else time_journalled_producer(record)
    return options.count / seconds


def main() -> int:
    """Print a table of the rounds of each library, with the ratio of the medians.

    Returns 1 if a library misses the target.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    libraries = get_args(ClientLibrary)
    parser.add_argument("--clients", default=",".join(libraries), help="libraries, comma-separated (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--acks", type=int, default=-1, choices=(-1, 0, 1))
    parser.add_argument("--payload-bytes", type=int, default=64)
    parser.add_argument("--kafka", default=VERSION)
    parser.add_argument("--min-ratio", type=float, default=TARGET, metavar="RATIO", help=f"target (default {TARGET})")
    parser.add_argument("--bare", nargs=2, metavar=("CLIENT", "CONFIG"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        client, config = options.bare
        print(_BARE[client](msgspec.json.decode(Path(config).read_bytes(), type=ProducerConfig)))
        return 0
    chosen = options.clients.split(",")
    if unknown := [client for client in chosen if client not in libraries]:
        parser.error(f"no client library is called {unknown[0]!r}: there are {', '.join(libraries)}")
    print(measured_on())
    with tempfile.TemporaryDirectory(prefix="ebbtide-bench-") as scratch:
        folder = Path(scratch)
        with single_node(folder / "node", options.kafka) as node:
            create_topics([node.address], {"bench": NewTopic(assignment=((1,),) * options.partitions)}, 60)
            ratios = [_compare(client, folder, node.address, options) for client in chosen]
    return 0 if min(ratios) >= options.min_ratio else 1


def _compare(client: ClientLibrary, folder: Path, address: str, options: argparse.Namespace) -> float:
    """Print the rounds of one library, and return the ratio of the medians."""
    java = ensure_tools(options.kafka, lambda _: None) if client == "java" else None
    rates: dict[str, list[float]] = {"bare": [], "journalled": []}
    for kind in rates:
        measure(kind, client, -1, folder, address, java, options)  # the broker's JVM warms up
    print(f"{client}\n{'round':>6}  {'bare/s':>10}  {'journalled/s':>12}  {'ratio':>5}")
    for number in range(options.rounds):
        # Which one goes first alternates, so that neither always gets the warmer broker.
        for kind in sorted(rates, reverse=number % 2 == 1):
            rates[kind].append(measure(kind, client, number, folder, address, java, options))
        ours, theirs = rates["journalled"][-1], rates["bare"][-1]
        print(f"{number:>6}  {theirs:>10,.0f}  {ours:>12,.0f}  {ours / theirs:>5.2f}", flush=True)
    ours, theirs = median(rates["journalled"]), median(rates["bare"])
    ratio = ours / theirs
    print(f"{'median':>6}  {theirs:>10,.0f}  {ours:>12,.0f}  {ratio:>5.2f}  (target: at least {options.min_ratio})")
    return ratio


if __name__ == "__main__":
    sys.exit(main())
