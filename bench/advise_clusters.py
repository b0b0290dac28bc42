"""Advises about real clusters, and runs the scenario of each line with acks=all on real Kafka.

From the root of a checkout:

    python -m bench.advise_clusters read FOLDER             brings up each cluster, and advises about it
    python -m bench.advise_clusters run FOLDER --minutes 7  runs scenarios that were not run yet
    python -m bench.advise_clusters judge FOLDER            judges the records
    python -m bench.advise_clusters table FOLDER            prints the tables of docs/advise-measured.md

A line that is alike on several clusters is run once, on the cluster that has had the fewest so far. Alike are the ELR,
the settings of the group, the event and the answer; a lower metadata.version is a cluster of its own kind. `run` may be
called again until nothing is left.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from ebbtide.waiting import wait_until

EBBTIDE = (sys.executable, "-m", "ebbtide")
RF_3 = {"orders": ([[1, 2, 3], [2, 3, 1]], {"min.insync.replicas": "2"})}
RF_5 = {"orders": ([[1, 2, 3, 4, 5]], {"min.insync.replicas": "3"})}
MIXED = {
    "one": ([[1], [2]], {"min.insync.replicas": "1"}),
    "three": ([[1, 2, 3]], {"min.insync.replicas": "1"}),
    "unclean": ([[1, 2, 3]], {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}),
    "flushed": ([[1, 2, 3]], {"min.insync.replicas": "2", "flush.messages": "1"}),
}
ONE_AND_THREE = {name: MIXED[name] for name in ("one", "three")}
ELR = "eligible.leader.replicas.version"


class AdvisedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster to advise about; `dead` brokers are killed before."""

    name: str
    kafka: str
    what: str
    topics: dict[str, Any] = msgspec.field(default_factory=lambda: RF_3)
    brokers: int = 3
    features: dict[str, int] = {}
    secure: bool = False
    dead: tuple[int, ...] = ()


CLUSTERS = (
    AdvisedCluster(name="341", kafka="3.4.1", what="RF 3, min ISR 2"),
    AdvisedCluster(name="341-mixed", kafka="3.4.1", what="RF 1; RF 3 with min ISR 1", topics=ONE_AND_THREE),
    AdvisedCluster(name="391", kafka="3.9.1", what="RF 3, min ISR 2"),
    AdvisedCluster(
        name="391-mv8", kafka="3.9.1", what="metadata.version 8; RF 3, min ISR 2", features={"metadata.version": 8}
    ),
    AdvisedCluster(name="391-rf5", kafka="3.9.1", what="RF 5, min ISR 3", topics=RF_5, brokers=5),
    AdvisedCluster(
        name="391-mixed",
        kafka="3.9.1",
        what="RF 1; RF 3 with min ISR 1; unclean elections; flush.messages=1",
        topics=MIXED,
    ),
    AdvisedCluster(name="391-below", kafka="3.9.1", what="RF 3, min ISR 2, two brokers down", dead=(2, 3)),
    AdvisedCluster(name="402", kafka="4.0.2", what="ELR off; RF 3, min ISR 2"),
    AdvisedCluster(name="402-elr", kafka="4.0.2", what="ELR on; RF 3, min ISR 2", features={ELR: 1}),
    AdvisedCluster(name="431", kafka="4.3.1", what="RF 3, min ISR 2"),
    AdvisedCluster(name="431-rf5", kafka="4.3.1", what="RF 5, min ISR 3", topics=RF_5, brokers=5),
    AdvisedCluster(
        name="431-mixed",
        kafka="4.3.1",
        what="RF 1; RF 3 with min ISR 1; unclean elections; flush.messages=1",
        topics=MIXED,
    ),
    AdvisedCluster(name="431-secure", kafka="4.3.1", what="SASL and TLS; RF 3, min ISR 2", secure=True),
    AdvisedCluster(name="431-below", kafka="4.3.1", what="RF 3, min ISR 2, two brokers down", dead=(2, 3)),
)


def read(folder: Path) -> None:
    """Bring up each cluster, and advise about it; what is there already is left."""
    sys.path[:0] = ["tests", "tests/support"]
    from live.foreign_cluster import foreign_cluster

    advising = []
    for one in CLUSTERS:
        into = folder / one.name
        if (into / "advice.json").exists():
            continue
        into.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with foreign_cluster(
            into / "nodes", one.kafka, brokers=one.brokers, secure=one.secure, features=one.features
        ) as cluster:
            with cluster.connection_to(1) as connection:
                for name, (assignment, config) in one.topics.items():
                    connection.create_topic(name, assignment, config)
            if one.dead:
                cluster.kill(*one.dead)
                wait_until(lambda: _isr(cluster) == {1}, awaited="the ISR to shrink", timeout_s=30)
            words = ["advise", "--bootstrap", cluster.bootstrap, "--json", "--save", into / "cluster.json"]
            if one.secure:
                words += ["--command-config", cluster.client_properties("node")]
            with (into / "out").open("w") as out, (into / "err").open("w") as err:
                process = subprocess.Popen([*EBBTIDE, *words, "--scenario", into / "lines"], stdout=out, stderr=err)
            wait_until((into / "cluster.json").exists, awaited="the snapshot", timeout_s=60)
        print(f"{one.name}: up and read in {time.monotonic() - began:.0f} s", flush=True)
        advising.append((one, process))
    for one, process in advising:
        if process.wait(300) != 0:
            print(f"{one.name}: {(folder / one.name / 'err').read_text()}")
            continue
        (folder / one.name / "out").rename(folder / one.name / "advice.json")


def _isr(cluster: Any) -> set[int]:
    with cluster.connection_to(1) as connection:
        found = connection.metadata(["orders"]).partitions
    return {broker for one in found.values() for broker in one.isr}


class PlannedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of advice; `file` is None where advise wrote no scenario."""

    key: str
    cluster: str
    kafka: str
    says: str
    settings: str
    event: str
    file: str | None


def lines(folder: Path) -> Iterator[PlannedLine]:
    """Yield each line with acks=all of each cluster."""
    for one in CLUSTERS:
        path = folder / one.name / "advice.json"
        if not path.exists():
            continue
        advice = json.loads(path.read_text())
        kind = "ELR" if advice["release"]["elr"] else "no ELR"
        kind += ", old metadata.version" if "metadata.version" in one.features else ""
        for group in advice["groups"]:
            settings = group["settings"]
            prefix = _prefix(settings)
            for line in group["lines"]:
                file = folder / one.name / "lines" / f"{prefix}-{line['key']}-acks-all.toml"
                yield PlannedLine(
                    key=f"{kind}/{prefix}/{line['key']}/{line['acks']['all']['says']}",
                    cluster=one.name,
                    kafka=one.kafka,
                    says=line["acks"]["all"]["says"],
                    settings=prefix,
                    event=f"{line['what']}, {line['when'].split(',')[0]}",
                    file=str(file) if file.exists() else None,
                )


def _prefix(settings: dict[str, Any]) -> str:
    from analysis.advise.groups import GroupSettings
    from analysis.advise.scenarios import prefix_of

    return prefix_of(msgspec.convert(settings, GroupSettings))


def plan(folder: Path) -> list[PlannedLine]:
    """Return the lines to run, each once: first those of RF 3 and min ISR 2, and of these first what loses."""
    alike: dict[str, list[PlannedLine]] = {}
    for line in lines(folder):
        if line.file is not None:
            alike.setdefault(line.key, []).append(line)
    chosen: list[PlannedLine] = []
    loads = Counter[str]()
    for those in sorted(alike.values(), key=len):
        line = min(those, key=lambda one: loads[one.cluster])
        loads[line.cluster] += 1
        chosen.append(line)
    return sorted(chosen, key=lambda one: ("/rf3-min2/" not in one.key, one.says != "loses", "old" in one.key, one.key))


def run(folder: Path, minutes: float, part: str) -> None:
    """Run the scenarios of a part until the time is over. Several parts may run at once."""
    from ebbtide.errors import EbbtideError
    from ebbtide.scenario import catalogue
    from harness.runner.display import PlainDisplay
    from harness.runner.launch import LaunchOptions, prepare
    from harness.runner.run import run_scenario

    until_s = time.monotonic() + minutes * 60
    records = _records(folder)
    display = PlainDisplay(Console(quiet=True))
    number, _, count = part.partition("/")
    for line in plan(folder)[int(number) - 1 :: int(count)]:
        if line.key in records or time.monotonic() > until_s:
            continue
        began = time.monotonic()
        launch = prepare(LaunchOptions(runs=folder / "runs", runtime="local"), [line.kafka], display.note)
        try:
            record = run_scenario(launch.request(catalogue.find(str(line.file)), line.kafka, seed=1), display)
        except EbbtideError as error:
            print(f"{line.key}: {error.render()}", flush=True)
            continue
        print(f"{line.key}: {time.monotonic() - began:.0f} s", flush=True)
        with (folder / "records.jsonl").open("a") as out:
            out.write(json.dumps({"key": line.key, "record": str(record)}) + "\n")


def judge(folder: Path) -> None:
    """Judge the records that were not judged yet."""
    open_ = [one for one in _records(folder).values() if _verdict(one).get("outcome") is None]
    if open_:
        subprocess.run([*EBBTIDE, "analyze", *open_], check=False, stdout=subprocess.DEVNULL)


def _records(folder: Path) -> dict[str, str]:
    path = folder / "records.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {row["key"]: row["record"] for row in rows}


def _verdict(record: str) -> dict[str, Any]:
    found = json.loads((Path(record) / "verdict.json").read_text())
    assert isinstance(found, dict)
    return {} if str(found["why"]).startswith("['not finished") else found


def table(folder: Path) -> None:
    """Print a row for each cluster, and a row for each line that was run."""
    records = _records(folder)
    by_cluster: dict[str, Counter[str]] = {}
    for line in lines(folder):
        counts = by_cluster.setdefault(line.cluster, Counter())
        counts[line.says] += 1
        counts["run"] += line.key in records
        counts["no scenario"] += line.file is None and line.says in ("loses", "survives")
    print(
        "| Kafka | cluster | *loses* | *survives* | other | without scenario | shown by a run |\n"
        "|---|---|---|---|---|---|---|"
    )
    for one in CLUSTERS:
        if (found := by_cluster.get(one.name)) is not None:
            other = found["unknown"] + found["refused"]
            cells = [one.kafka, one.what, found["loses"], found["survives"], other, found["no scenario"], found["run"]]
            print("| " + " | ".join(map(str, cells)) + " |")
    print("\n| Kafka | cluster and settings | event | advice | lost, committed | outcome |\n|---|---|---|---|---|---|")
    agreed = Counter[str]()
    planned = plan(folder)
    for line in planned:
        if line.key in records:
            verdict = _verdict(records[line.key])
            lost = sum(one["count"] for one in verdict.get("losses", ()) if one["committed"]) or _lost_in(verdict)
            outcome = verdict.get("outcome", "not judged")
            agrees = (lost > 0) == (line.says == "loses")
            is_open = outcome in ("inconclusive", "not judged")
            agreed[f"{line.says}: {'inconclusive' if is_open else 'agrees' if agrees else 'differs'}"] += 1
            kind = line.key.rsplit("/", 2)[0].replace("/", ", ")
            print(f"| {line.kafka} | {kind} | {line.event} | {line.says} | {lost:,} | {outcome} |")
    print(f"\n{dict(agreed)}; left: {sum(line.key not in records for line in planned)} of {len(planned)}")


def _lost_in(verdict: dict[str, Any]) -> int:
    found = [one for one in verdict.get("anomalies", ()) if one["kind"] == "lost"]
    return sum(one["count"] for one in found)


def main() -> int:
    """Carry out the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["read", "run", "judge", "table"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=7)
    parser.add_argument("--part", default="1/1", metavar="K/N")
    args = parser.parse_args()
    folder = args.folder.absolute()
    match args.what:
        case "read":
            read(folder)
        case "run":
            run(folder, args.minutes, args.part)
        case "judge":
            judge(folder)
        case _:
            table(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
