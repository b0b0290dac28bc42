"""Measures what journalling costs a producer: `python -m bench.journal_cost`.

Run it from the root of a checkout. Rounds alternate between a bare kafka-python producer and the workload's producer,
with the same settings, against one real Kafka node on loopback. Each round has its own process; the time runs from the
first hand-over to the last answer. Target: the ratio of the medians is at least 0.8.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ebbtide.journal.convert import convert_journals
from ebbtide.journal.payload import encode
from ebbtide.record.files import JOURNAL_DIR
from tests.live.single_node import VERSION, single_node
from workloads.config import Endpoints, NewTopic, ProducerConfig
from workloads.producer import open_producer
from workloads.topics import create_topics

TARGET = 0.8


def time_bare_producer(config: ProducerConfig) -> float:
    """Return the seconds of a bare producer for the same records.

    It has no journal and no callbacks.
    """
    producer = open_producer(config, config.bootstrap)
    payload = encode(config.run_id, config.id, 0, 0, config.payload_bytes)
    assert config.count is not None
    start = time.perf_counter()
    for number in range(config.count):
        producer.send(config.topic, payload, None, None, number % config.partitions)
    producer.flush()
    return time.perf_counter() - start


def time_journalled_producer(record: Path) -> float:
    """Return the seconds of the record's only producer.

    They last from the first hand-over to the last answer.
    """
    convert_journals(record)
    (file,) = (record / "sends").glob("*.parquet")
    table = pq.read_table(file, columns=["sent_ns", "done_ns", "status"])
    assert pc.all(pc.equal(table["status"], "acked")).as_py()
    return (pc.max(table["done_ns"]).as_py() - pc.min(table["sent_ns"]).as_py()) / 1e9


def measure(kind: str, number: int, folder: Path, address: str, options: argparse.Namespace) -> float:
    """Run one round in its own process; returns records per second."""
    record = folder / f"{kind}-{number}"
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
    module = ["bench.journal_cost", "--bare"] if kind == "bare" else ["workloads.producer"]
    done = subprocess.run([sys.executable, "-m", *module, str(path)], check=True, capture_output=True, text=True)
    seconds = json.loads(done.stdout) if kind == "bare" else time_journalled_producer(record)
    return options.count / seconds


def main() -> int:
    """Print a table of the rounds, and the ratio of the medians.

    Returns 1 if the target is missed.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--acks", type=int, default=-1, choices=(-1, 0, 1))
    parser.add_argument("--payload-bytes", type=int, default=64)
    parser.add_argument("--kafka", default=VERSION)
    parser.add_argument("--min-ratio", type=float, default=TARGET, metavar="RATIO", help=f"target (default {TARGET})")
    parser.add_argument("--bare", metavar="CONFIG", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        print(time_bare_producer(msgspec.json.decode(Path(options.bare).read_bytes(), type=ProducerConfig)))
        return 0
    rates: dict[str, list[float]] = {"bare": [], "journalled": []}
    with tempfile.TemporaryDirectory(prefix="ebbtide-bench-") as scratch:
        folder = Path(scratch)
        with single_node(folder / "node", options.kafka) as node:
            create_topics([node.address], {"bench": NewTopic(assignment=((1,),) * options.partitions)}, 60)
            for kind in rates:
                measure(kind, -1, folder, node.address, options)  # the broker's JVM warms up
            print(f"{'round':>5}  {'bare/s':>10}  {'journalled/s':>12}  {'ratio':>5}")
            for number in range(options.rounds):
                # Which one goes first alternates, so that neither always gets the warmer broker.
                for kind in sorted(rates, reverse=number % 2 == 1):
                    rates[kind].append(measure(kind, number, folder, node.address, options))
                ours, theirs = rates["journalled"][-1], rates["bare"][-1]
                print(f"{number:>5}  {theirs:>10,.0f}  {ours:>12,.0f}  {ours / theirs:>5.2f}", flush=True)
    ours, theirs = median(rates["journalled"]), median(rates["bare"])
    ratio = ours / theirs
    print(f"{'median':>6} {theirs:>10,.0f}  {ours:>12,.0f}  {ratio:>5.2f}  (target: at least {options.min_ratio})")
    return 0 if ratio >= options.min_ratio else 1


if __name__ == "__main__":
    sys.exit(main())
