"""Watches the cluster of compose/foreign.yaml while its containers and volumes are broken from outside.

From the root of a checkout:

    tools/docker-daemon python -m bench.watch_compose run FOLDER --kafka 4.3.1 --minutes 7
    python -m bench.watch_compose judge FOLDER
    python -m bench.watch_compose table FOLDER

`run` may be called again until every fault of `bench.compose_faults` was watched. `--fault NAME` names some of them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.compose_faults import FAULTS, UNCLEAN, Fault
from bench.composed_cluster import BROKERS, CONTROLLERS, ComposedCluster
from cluster.host.containers import connect
from cluster.images.build import build_image
from cluster.images.find import find_own_image
from ebbtide.errors import EbbtideError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.waiting import pause, wait_until
from harness.runner.display import PlainDisplay
from harness.watch.marks import say, watch_going_on
from harness.watch.plan import read_workload
from harness.watch.watching import WatchRequest, watch_cluster

WORKLOAD = """
[topics.t]
partitions = 1
replication_factor = 3
min_isr = 2
{config}
[[producers]]
id = 1
topic = "t"
acks = "all"
rate_per_s = 50
[[producers]]
id = 2
topic = "t"
acks = "1"
rate_per_s = 50
[[consumers]]
id = 1
topics = ["t"]
[[predictions]]
kafka = ">=3.3"
clause = "a watch predicts nothing"
"""


def run(folder: Path, kafka: str, minutes: float, only: Collection[str] = ()) -> None:
    """Watch each fault that was not watched yet, until the time is over; only the named ones, if any are."""
    until_s = time.monotonic() + minutes * 60
    done = {(row["kafka"], row["fault"]) for row in _rows(folder)}
    with contextlib.closing(connect()) as client:
        if find_own_image(client, kafka, "for compose") is None:
            build_image(client, kafka, lambda text: None)
    cluster = ComposedCluster(kafka, folder)
    with _up(cluster):
        for fault in FAULTS[kafka]:
            if (kafka, fault.__name__) in done or (only and fault.__name__ not in only):
                continue
            if time.monotonic() > until_s:
                break
            began = time.monotonic()
            record, problem = _watch(cluster, folder, fault)
            print(f"{kafka} {fault.__name__}: {time.monotonic() - began:.0f} s {problem or ''}", flush=True)
            if record is not None and problem is None:
                with (folder / "watched.jsonl").open("a") as out:
                    row = {"kafka": kafka, "fault": fault.__name__, "record": str(record)}
                    out.write(json.dumps(row) + "\n")
            for one in BROKERS:
                with contextlib.suppress(RuntimeError):
                    cluster.docker("unpause", one)
                with contextlib.suppress(RuntimeError):
                    cluster.docker("start", one)
            cluster.await_brokers()


@contextlib.contextmanager
def _up(cluster: ComposedCluster) -> Iterator[None]:
    try:
        cluster.up()
        yield
    finally:
        cluster.down()


def _watch(cluster: ComposedCluster, folder: Path, fault: Fault) -> tuple[Path | None, str | None]:
    """Watch while the fault goes on; returns the record, and what failed outside of the watch."""
    problems: list[str] = []
    runs = folder / "runs"
    runs.mkdir(exist_ok=True)
    workload = folder / "workload.toml"
    config = 'config = { "unclean.leader.election.enable" = "true" }' if fault in UNCLEAN else ""
    workload.write_text(WORKLOAD.format(config=config))

    def breaking() -> None:
        record = wait_until(lambda: _sending(runs), awaited="a watch", timeout_s=60)
        try:
            pause(3)
            (topic,) = read_manifest(record).topics
            fault(cluster, topic, lambda text: say(record, text))
            cluster.await_brokers()
            cluster.await_isr(topic, *BROKERS)
            pause(2)
        except Exception as error:
            problems.append(repr(error))
        finally:
            say(record, None)

    thread = threading.Thread(target=breaking)
    thread.start()
    request = WatchRequest(
        bootstrap=tuple(BROKERS.values()),
        controllers=CONTROLLERS,
        command_config=cluster.config,
        duration_s=120,
        runs=runs,
        workload=read_workload(workload),
    )
    record = None
    try:
        record = watch_cluster(request, PlainDisplay(Console(file=(folder / "notes.txt").open("a"))))
    except EbbtideError as error:
        problems.append(error.render())
    thread.join()
    return record, "; ".join(problems) or None


def _sending(runs: Path) -> RecordFolder | None:
    """The record of the watch once its clients send."""
    try:
        record = watch_going_on(runs)
    except EbbtideError:
        return None
    return record if list((record / "journal").glob("producer-1.journal*")) else None


def _rows(folder: Path) -> list[dict[str, Any]]:
    path = folder / "watched.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def judge(folder: Path) -> None:
    """Judge every record."""
    subprocess.run(
        [sys.executable, "-m", "ebbtide", "analyze", *(row["record"] for row in _rows(folder))],
        check=False,
        stdout=subprocess.DEVNULL,
    )


def table(folder: Path) -> None:
    """Print a row for each watch."""
    print("| Kafka | from outside | acked | lost, committed | lost, not committed | causes | outcome |")
    print("|---|---|---|---|---|---|---|")
    for row in sorted(_rows(folder), key=lambda row: (row["kafka"], row["fault"])):
        verdict = json.loads((Path(row["record"]) / "verdict.json").read_text())
        causes = Counter[str]()
        lost = Counter[bool]()
        for one in verdict["losses"]:
            causes[one["cause"]] += one["count"]
            lost[one["committed"]] += one["count"]
        unknown = sum(one["count"] for one in verdict["anomalies"] if one["kind"] == "lost") - lost.total()
        violated = [one["name"] for one in verdict["properties"] if one["status"] == "violated"]
        shown = [f"{cause} {count:,}" for cause, count in sorted(causes.items())]
        shown += [f"unknown {unknown:,}"] if unknown else []
        cells = [row["kafka"], row["fault"].replace("_", " "), f"{verdict['counts']['acked']:,}"]
        cells += [f"{lost[True]:,}", f"{lost[False]:,}", ", ".join(shown) or "-", verdict["outcome"], *violated]
        print("| " + " | ".join(cells) + " |")
        if verdict["outcome"] != "as-predicted":
            print("    " + "\n    ".join(verdict["why"]))


def main() -> int:
    """Carry out the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "judge", "table"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kafka", default="4.3.1", choices=sorted(FAULTS))
    parser.add_argument("--minutes", type=float, default=7)
    faults = sorted({fault.__name__ for faults in FAULTS.values() for fault in faults})
    parser.add_argument("--fault", action="append", default=[], choices=faults, help="may be repeated; default: all")
    args = parser.parse_args()
    folder = args.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    match args.what:
        case "run":
            run(folder, args.kafka, args.minutes, args.fault)
        case "judge":
            judge(folder)
        case _:
            table(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
