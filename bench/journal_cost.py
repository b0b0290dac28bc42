"""Measures what a journal costs a producer of each library: `PYTHONPATH=tests python -m bench.journal_cost`.

Run it from the root of a checkout. Rounds alternate between three kinds, with the same settings, against one real Kafka
node on loopback:

- bare: the library without callbacks, which does not learn the outcome of any record
- answers: the library, with the least that keeps each record's error and offset
- journalled: the workload's producer

Each round has its own process; the time runs from the first hand-over to the last answer. Kafka's Java client has no
bare kind, because no Python can call it. Target for each library: journalled is at least 0.8 of bare, by the
medians. `--of answers` compares with answers instead.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Literal

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import KafkaError, Message
from live.single_node import VERSION, single_node

from bench.measured_on import measured_on
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.payload import encode
from ebbtide.record.files import JOURNAL_DIR, RecordFolder
from ebbtide.scenario.kafka_settings import ClientLibrary
from workloads import librdkafka_producer, producer
from workloads.config import Endpoints, NewTopic, ProducerConfig
from workloads.topics import create_topics

TARGET = 0.8
_MODULES: dict[ClientLibrary, ModuleType] = {"kafka-python": producer, "librdkafka": librdkafka_producer}


def time_kafka_python(config: ProducerConfig, *, keeps_answers: bool) -> float:
    """Return the seconds of a kafka-python producer for the records, without a journal."""
    sender = producer.open_producer(config, config.bootstrap)
    payload = encode(config.run_id, config.id, 0, 0, config.payload_bytes)
    assert config.count is not None
    futures = []
    start = time.perf_counter()
    for number in range(config.count):
        future = sender.send(config.topic, payload, None, None, number % config.partitions)
        if keeps_answers:
            futures.append(future)
    sender.flush()
    answers = [(future.exception, future.value and future.value.offset) for future in futures]
    seconds = time.perf_counter() - start
    assert not any(error for error, _ in answers)
    return seconds


def time_librdkafka(config: ProducerConfig, *, keeps_answers: bool) -> float:
    """Return the seconds of a librdkafka producer for the records, without a journal."""
    sender = librdkafka_producer.open_producer(config, config.bootstrap)
    payload = encode(config.run_id, config.id, 0, 0, config.payload_bytes)
    assert config.count is not None
    answers: list[tuple[bytes | None, KafkaError | None, int | None]] = []

    def keep(error: KafkaError | None, message: Message) -> None:
        answers.append((message.value(), error, message.offset()))

    callback = keep if keeps_answers else None
    start = time.perf_counter()
    for number in range(config.count):
        while True:
            try:
                sender.produce(config.topic, payload, None, number % config.partitions, callback)
            except BufferError:  # its queue is full
                sender.poll(0.01)
            else:
                break
        if keeps_answers and number % 100 == 0:
            sender.poll(0)
    sender.flush()
    seconds = time.perf_counter() - start
    assert len(answers) == config.count * keeps_answers
    assert not any(error for _, error, _ in answers)
    return seconds


Kind = Literal["bare", "answers", "journalled"]

_PLAIN: dict[tuple[ClientLibrary, Kind], Callable[[ProducerConfig], float]] = {
    ("kafka-python", "bare"): partial(time_kafka_python, keeps_answers=False),
    ("kafka-python", "answers"): partial(time_kafka_python, keeps_answers=True),
    ("librdkafka", "bare"): partial(time_librdkafka, keeps_answers=False),
    ("librdkafka", "answers"): partial(time_librdkafka, keeps_answers=True),
}
"""What a round without a journal measures."""


def time_journalled_producer(record: Path) -> float:
    """Return the seconds of the record's only producer.

    They last from the first hand-over to the last answer.
    """
    convert_journals(RecordFolder(record))
    (file,) = (record / "sends").glob("*.parquet")
    table = pq.read_table(file, columns=["sent_ns", "done_ns", "status"])
    assert pc.all(pc.equal(table["status"], "acked")).as_py()
    return float(pc.max(table["done_ns"]).as_py() - pc.min(table["sent_ns"]).as_py()) / 1e9


def measure(
    kind: Kind,
    client: ClientLibrary,
    number: int,
    folder: Path,
    address: str,
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
    )
    path = record / "config.json"
    path.write_bytes(msgspec.json.encode(config))
    is_plain = kind != "journalled"
    module = ["bench.journal_cost", "--plain", client, kind] if is_plain else [_MODULES[client].__name__]
    done = subprocess.run([sys.executable, "-m", *module, str(path)], check=True, capture_output=True, text=True)
    seconds = json.loads(done.stdout) if is_plain else time_journalled_producer(record)
    return float(options.count / seconds)


def main() -> int:
    """Print a table of the rounds of each library, with the ratio of the medians.

    Returns 1 if a library misses the target.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    libraries: list[ClientLibrary] = list(_MODULES)
    parser.add_argument("--clients", default=",".join(libraries), help="libraries, comma-separated (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--acks", type=int, default=-1, choices=(-1, 0, 1))
    parser.add_argument("--payload-bytes", type=int, default=64)
    parser.add_argument("--kafka", default=VERSION)
    parser.add_argument("--min-ratio", type=float, default=TARGET, metavar="RATIO", help=f"target (default {TARGET})")
    parser.add_argument("--of", choices=("bare", "answers"), default="bare", help="what the target is a part of")
    parser.add_argument("--plain", nargs=3, metavar=("CLIENT", "KIND", "CONFIG"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plain:
        client, kind, config = options.plain
        print(_PLAIN[client, kind](msgspec.json.decode(Path(config).read_bytes(), type=ProducerConfig)))
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
    """Print the rounds of one library, and return the ratio of the medians that has the target."""
    kinds: list[Kind] = [*(kind for library, kind in _PLAIN if library == client), "journalled"]
    rates: dict[Kind, list[float]] = {kind: [] for kind in kinds}
    for kind in kinds:
        measure(kind, client, -1, folder, address, options)  # the broker's JVM warms up
    print(client)
    print(f"{'round':>6}  {'bare/s':>10}  {'answers/s':>10}  {'journalled/s':>12}  {'/bare':>5}  {'/answers':>8}")
    for number in range(options.rounds):
        # Which one goes first changes, so that none always gets the warmer broker.
        for kind in kinds[number % len(kinds) :] + kinds[: number % len(kinds)]:
            rates[kind].append(measure(kind, client, number, folder, address, options))
        _print_line(str(number), {kind: rates[kind][-1] for kind in kinds})
    ratios = _print_line("median", {kind: median(rates[kind]) for kind in kinds})
    print(f"target: at least {options.min_ratio} of {options.of}")
    return ratios[options.of]


def _print_line(name: str, rates: dict[Kind, float]) -> dict[str, float]:
    """Print a line of the table; returns the ratios of the journalled producer to the others."""
    bare, ours = rates["bare"], rates["journalled"]
    answers = rates.get("answers", bare)
    print(
        f"{name:>6}  {bare:>10,.0f}  {answers:>10,.0f}  {ours:>12,.0f}  {ours / bare:>5.2f}  {ours / answers:>8.2f}",
        flush=True,
    )
    return {"bare": ours / bare, "answers": ours / answers}


if __name__ == "__main__":
    sys.exit(main())
