"""Measures `ebbtide advise` on a large made cluster: `python -m bench.advise`.

Run it from the root of a checkout. A process of its own answers for one broker with 5,000 topics and 50,000
partitions, RF 3, in four groups of settings. This process reads the cluster over the loopback, writes and reads the
snapshot's file, and makes the advice. Times are by the wall clock. Exit code 1 if the whole takes longer than
`--max-s`, or the peak of this process is above `--max-mib`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from analysis.advise.advice import advise
from analysis.advise.page import render_advice
from cluster.snapshot.reading import read_cluster
from cluster.snapshot.security import Security
from ebbtide.snapshot.model import read_snapshot, write_snapshot

SETTINGS: tuple[dict[str, str], ...] = (
    {"min.insync.replicas": "2"},
    {"min.insync.replicas": "1"},
    {"min.insync.replicas": "2", "cleanup.policy": "compact"},
    {},
)
T = TypeVar("T")


def _peak_mib() -> float:
    """Return the largest resident memory of this process. `ru_maxrss` would include its parent's before exec."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> int:
    """Measure and print; returns 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=5000, metavar="N")
    parser.add_argument("--partitions", type=int, default=10, metavar="N", help="of each topic")
    parser.add_argument("--max-s", type=float, default=60, metavar="SECONDS", help="target")
    parser.add_argument("--max-mib", type=float, default=600, metavar="MIB", help="target")
    args = parser.parse_args()
    # The server is forked before this process grows, and does not count.
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("fork").Process(
        target=_serve, args=(there, args.topics, args.partitions), daemon=True
    )
    server.start()
    began = time.monotonic()
    try:
        address = here.recv()
        began = time.monotonic()
        snapshot = _timed("read over the network", lambda: read_cluster([address], Security()))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cluster.json"
            _timed("write the snapshot", lambda: write_snapshot(path, snapshot))
            print(f"  {path.stat().st_size:,} bytes")
            again = _timed("read the snapshot", lambda: read_snapshot(path))
    finally:
        here.send("end")
        server.join(10)
    advice = _timed("advice", lambda: advise(again))
    page = _timed("page", lambda: render_advice(advice))
    took_s = time.monotonic() - began
    peak_mib = _peak_mib()
    partitions = sum(len(topic.partitions) for topic in snapshot.topics)
    print(
        f"{len(snapshot.topics):,} topics, {partitions:,} partitions, {len(advice.groups)} groups, {len(page):,} bytes"
    )
    met = took_s <= args.max_s and peak_mib <= args.max_mib and again == snapshot
    print(f"{took_s:.1f} s and {peak_mib:,.0f} MiB; targets {args.max_s:g} s, {args.max_mib:g} MiB: ", end="")
    print("met" if met else "MISSED")
    return 0 if met else 1


def _timed(what: str, do: Callable[[], T]) -> T:
    began = time.monotonic()
    result = do()
    print(f"{what}: {time.monotonic() - began:.2f} s")
    return result


def _serve(pipe: Connection, topics: int, partitions: int) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from made_cluster import MadeCluster, served_cluster

    cluster = MadeCluster()
    whole = {"leader": 1, "replicas": [1, 2, 3], "isr": [1, 2, 3], "elr": []}
    cluster.topics = {f"topic-{number:05}": [whole] * partitions for number in range(topics)}
    cluster.configs = {name: dict(SETTINGS[at % len(SETTINGS)]) for at, name in enumerate(cluster.topics)}
    with served_cluster(cluster) as address:
        pipe.send(address)
        pipe.recv()


if __name__ == "__main__":
    sys.exit(main())
