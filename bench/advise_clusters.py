"""Advises about real clusters, and runs the scenario of each line with acks=all on real Kafka.

From the root of a checkout:

    python -m bench.advise_clusters read FOLDER             brings up each cluster, and advises about it
    python -m bench.advise_clusters run FOLDER --minutes 7  runs scenarios that were not run yet
    python -m bench.advise_clusters judge FOLDER            judges the records
    python -m bench.advise_clusters table FOLDER            prints what is known of each line
    python -m bench.advise_clusters page FOLDER             writes it to bench/results/advised.json

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
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from bench.advised_clusters import CLUSTERS, AdvisedCluster
from bench.advised_lines import (
    LineRun,
    MeasuredLine,
    counts_in_words,
    keys_with_results,
    merge_lines,
    read_stored,
    tables,
    write,
)
from ebbtide.errors import EbbtideError, UsageError
from ebbtide.waiting import wait_until
from harness.nightly.shards import Shard, parse_shard

EBBTIDE = (sys.executable, "-m", "ebbtide")


def read(folder: Path) -> None:
    """Bring up and read each cluster, and advise about it.

    A snapshot that is there is not read again. What an earlier version of Ebbtide advised about it goes with
    advice.json and lines/: remove them to advise again.
    """
    for one in CLUSTERS:
        into = folder / one.name
        into.mkdir(parents=True, exist_ok=True)
        if not (into / "cluster.json").exists():
            began = time.monotonic()
            _read_cluster(one, into)
            print(f"{one.name}: up and read in {time.monotonic() - began:.0f} s", flush=True)
        if (into / "advice.json").exists():
            continue
        words = ["advise", str(into / "cluster.json"), "--json", "--scenario", str(into / "lines")]
        done = subprocess.run([*EBBTIDE, *words], capture_output=True, text=True, check=False, timeout=300)
        if done.returncode == 0:
            (into / "advice.json").write_text(done.stdout)
        else:
            print(f"{one.name}: {done.stderr}", flush=True)


def _read_cluster(one: AdvisedCluster, into: Path) -> None:
    """Bring up a cluster as somebody else would, and save its snapshot with one command."""
    sys.path[:0] = ["tests", "tests/support"]
    from live.foreign_cluster import foreign_cluster

    with foreign_cluster(
        into / "nodes", one.kafka, brokers=one.brokers, secure=one.secure, features=one.features, racks=one.racks
    ) as cluster:
        with cluster.connection_to(1) as connection:
            for name, (assignment, config) in one.topics.items():
                connection.create_topic(name, assignment, config)
        if one.dead:
            cluster.kill(*one.dead)
            wait_until(lambda: _isr(cluster) == {1}, awaited="the ISR to shrink", timeout_s=30)
        words = ["advise", "--bootstrap", cluster.bootstrap, "--save", str(into / "cluster.json")]
        if one.secure:
            words += ["--command-config", str(cluster.client_properties("node"))]
        subprocess.run([*EBBTIDE, *words], check=True, stdout=subprocess.DEVNULL, timeout=300)


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

    def times_taken(self, taken: Counter[str]) -> int:
        """Return how often lines like it were taken."""
        return sum(taken[word] for word in self.differs_by())

    def differs_by(self) -> tuple[str, ...]:
        """Return what tells the line from others: the kind of cluster, the settings with the event, the release."""
        kind, settings, event, says = self.key.split("/")
        return f"{kind}/{settings}", f"{kind}/{event}", f"{event}/{says}", self.kafka


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
    """Return the lines to run, each once, the most different first.

    Next is always the line whose event, settings and release were taken the fewest times, and of alike ones a
    line that *loses*. Lines that ran earlier come first, then those whose runs were inconclusive.
    """
    earlier = keys_with_results()
    again = {key for key, line in read_stored().items() if line.agreement() == "inconclusive"}
    alike: dict[str, list[PlannedLine]] = {}
    for line in lines(folder):
        if line.file is not None:
            alike.setdefault(line.key, []).append(line)
    left: list[PlannedLine] = []
    loads = Counter[str]()
    for those in sorted(alike.values(), key=len):
        line = min(those, key=lambda one: loads[one.cluster])
        loads[line.cluster] += 1
        left.append(line)
    chosen: list[PlannedLine] = []
    taken = Counter[str]()
    while left:
        line = min(
            left,
            key=lambda one: (
                one.key not in earlier,
                one.key not in again,
                one.times_taken(taken),
                one.says != "loses",
                one.key,
            ),
        )
        left.remove(line)
        taken.update(line.differs_by())
        chosen.append(line)
    return chosen


def part_of(text: str) -> Shard:
    """Parse the value of `--part`. Raises `ArgumentTypeError` for anything but K/N."""
    try:
        return parse_shard(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"got {error.got}, allowed: {error.allowed}") from None


def lines_of_part(planned: Sequence[PlannedLine], part: Shard, done: Collection[str]) -> list[PlannedLine]:
    """Return the lines of a part that are not done.

    What is done is left out last, so that parts that start at different times are disjoint.
    """
    return [line for line in planned[part.number - 1 :: part.count] if line.key not in done]


def run(folder: Path, minutes: float, part: Shard) -> None:
    """Run the scenarios of a part until the time is over. Several parts may run at once."""
    from ebbtide.scenario import catalogue
    from harness.runner.display import PlainDisplay
    from harness.runner.launch import LaunchOptions, prepare
    from harness.runner.run import run_scenario

    until_s = time.monotonic() + minutes * 60
    done = keys_with_results() | set(_records(folder))
    display = PlainDisplay(Console(quiet=True))
    for line in lines_of_part(plan(folder), part, done):
        if time.monotonic() > until_s:
            break
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


def lines_with_results(folder: Path) -> list[MeasuredLine]:
    """Return each kind of line, with what its run showed: here, or earlier by bench/results/advised.json."""
    records = _records(folder)
    alike: dict[str, list[PlannedLine]] = {}
    for line in lines(folder):
        alike.setdefault(line.key, []).append(line)
    ran_on = {line.key: line.kafka for line in plan(folder)}
    found = [
        MeasuredLine(
            key=key,
            event=those[0].event,
            says=those[0].says,
            clusters=tuple(one.cluster for one in those),
            has_scenario=key in ran_on,
            ran=_ran(ran_on[key], records[key]) if key in records and key in ran_on else None,
        )
        for key, those in alike.items()
    ]
    return merge_lines(read_stored(), found)


def _ran(kafka: str, record: str) -> LineRun | None:
    verdict = _verdict(record)
    if not verdict:
        return None
    lost = sum(one["count"] for one in verdict.get("losses", ()) if one["committed"]) or _lost_in(verdict)
    return LineRun(kafka=kafka, outcome=verdict["outcome"], lost=lost)


CLUSTER_COLUMNS = ("Kafka", "cluster", "*loses*", "*survives*", "other", "without scenario", "shown by a run")


def cluster_rows(found: Sequence[MeasuredLine]) -> tuple[tuple[str, ...], ...]:
    """Return a row for each cluster, with its lines with acks=all."""
    rows = []
    for cluster in CLUSTERS:
        those = [line for line in found if cluster.name in line.clusters]
        says = Counter(line.says for line in those)
        counts = (
            says["loses"],
            says["survives"],
            says["unknown"] + says["refused"],
            sum(not line.has_scenario and line.says in ("loses", "survives") for line in those),
            sum(line.ran is not None for line in those),
        )
        rows += [(cluster.kafka, cluster.what, *map(str, counts))] if those else []
    return tuple(rows)


def table(folder: Path, *, is_page: bool) -> None:
    """Print what is known of the lines, or keep it in bench/results/."""
    found = lines_with_results(folder)
    if is_page:
        write(found)
        print("now: python -m tools.pages.measurements")
        return
    for row in (CLUSTER_COLUMNS, *cluster_rows(found)):
        print(" | ".join(row))
    for one in tables(found):
        print(f"\n{one.kind}")
        for row in (one.columns, *one.rows):
            print(" | ".join(row))
    print(counts_in_words(found))
    for line in found:
        if line.agreement() in ("differs", "inconclusive"):
            print(f"{line.agreement()}: {line.key}: {_records(folder).get(line.key, 'an earlier run')}")


def _lost_in(verdict: dict[str, Any]) -> int:
    found = [one for one in verdict.get("anomalies", ()) if one["kind"] == "lost"]
    return sum(one["count"] for one in found)


def main() -> int:
    """Carry out the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["read", "run", "judge", "table", "page"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=7)
    parser.add_argument("--part", type=part_of, default="1/1", metavar="K/N", help="for runs side by side")
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
            table(folder, is_page=args.what == "page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
