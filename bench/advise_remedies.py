"""Shows on real Kafka that sets of changes save what the advice says: without them records are lost, with them none.

From the root of a checkout:

    python -m bench.advise_remedies FOLDER --minutes 5

Each call advises about made clusters, runs pairs of scenarios that were not run yet, and adds them to
bench/results/advised-remedies.json. A pair is one event on one cluster, before and after a set of changes that saves
it: each change alone does not. Records stay in FOLDER.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from ebbtide.releases.feature_levels import levels_of
from ebbtide.releases.known_releases import ELR_VERSION, METADATA_VERSION
from ebbtide.snapshot.model import (
    FLUSH_MESSAGES,
    MIN_ISR,
    UNCLEAN,
    ClusterSnapshot,
    SnapshotBroker,
    SnapshotPartition,
    SnapshotTopic,
)
from ebbtide.version import version_text
from tools.pages.measured import RESULTS, Measured, read_measured, write_measured

_RESULT = RESULTS / "advised-remedies.json"
_COLUMNS = ("event", "Kafka", "topic", "changes", "acked, lost without them", "acked, lost with them")
_BROKERS = 5


class RemedySet(msgspec.Struct, frozen=True, kw_only=True):
    """A set of changes for one topic of a made cluster; `keys` are events that only the whole set saves."""

    kafka: str
    elr: bool = False
    rf: int = 3
    configs: dict[str, str]
    assume: dict[str, str]
    keys: tuple[str, ...]

    @property
    def name(self) -> str:
        """A name for files."""
        changes = "-".join(f"{name.rpartition('.')[2]}-{value}" for name, value in self.assume.items())
        return f"{self.kafka}-rf{self.rf}-{'elr' if self.elr else 'no-elr'}-{changes}"

    def snapshot(self) -> ClusterSnapshot:
        """Return the cluster before the changes."""
        levels = levels_of(self.kafka)
        assert levels is not None
        known = levels[METADATA_VERSION]
        brokers = [
            SnapshotBroker(id=one, address=f"b{one}:9092", metadata_versions=(known[0], known[-1]))
            for one in range(1, _BROKERS + 1)
        ]
        replicas = tuple(range(1, self.rf + 1))
        partition = SnapshotPartition(index=0, leader=1, replicas=replicas, isr=replicas)
        return ClusterSnapshot(
            snapshot_version=1,
            taken_at="2026-11-30T00:00:00Z",
            cluster_id="made",
            brokers=tuple(brokers),
            features={METADATA_VERSION: known[-1], ELR_VERSION: int(self.elr)},
            topics=(SnapshotTopic(name="orders", partitions=(partition,), configs=self.configs),),
        )


_ONE, _TWO, _UNCLEAN_1, _UNCLEAN_2 = (
    {MIN_ISR: "1"},
    {MIN_ISR: "2"},
    {MIN_ISR: "1", UNCLEAN: "true"},
    {MIN_ISR: "2", UNCLEAN: "true"},
)
_NEWEST = {"kafka": "4.4.0", ELR_VERSION: "1"}
_CLEAN = {UNCLEAN: "false"}
_POWER, _DISK = "power-1-worst", "disk-worst"

SETS = (
    RemedySet(kafka="3.9.1", configs=_ONE, assume={**_TWO, **_NEWEST}, keys=(_POWER, _DISK)),
    RemedySet(kafka="4.0.2", configs=_UNCLEAN_2, assume={**_CLEAN, ELR_VERSION: "1"}, keys=(_POWER,)),
    RemedySet(kafka="3.9.1", configs=_UNCLEAN_1, assume={**_CLEAN, FLUSH_MESSAGES: "1"}, keys=(_POWER,)),
    RemedySet(kafka="4.0.2", configs=_UNCLEAN_1, assume={**_CLEAN, **_TWO, ELR_VERSION: "1"}, keys=(_POWER,)),
    RemedySet(kafka="4.3.1", elr=True, configs=_UNCLEAN_1, assume={**_CLEAN, **_TWO}, keys=(_POWER, _DISK)),
    RemedySet(kafka="4.0.2", rf=1, configs=_ONE, assume={"replication.factor": "3", **_TWO, **_NEWEST}, keys=(_DISK,)),
    RemedySet(kafka="4.3.1", rf=2, configs=_ONE, assume={**_TWO, ELR_VERSION: "1"}, keys=(_POWER,)),
    RemedySet(kafka="4.3.1", configs=_ONE, assume={**_TWO, ELR_VERSION: "1"}, keys=(_DISK,)),
    RemedySet(kafka="4.0.2", elr=True, configs=_ONE, assume={**_TWO, "kafka": "4.4.0"}, keys=(_DISK,)),
)


def pair_of(folder: Path, one: RemedySet, key: str) -> tuple[Path, Path]:
    """Return the scenarios of an event without and with the changes; `advise` writes those that are missing."""
    lines = folder / one.name
    if not lines.exists():
        snapshot = folder / f"{one.name}.json"
        snapshot.write_bytes(msgspec.json.encode(one.snapshot()))
        assume = ",".join(f"{name}={value}" for name, value in one.assume.items())
        words = ["advise", str(snapshot), "--assume", assume, "--scenario", str(lines), "--json"]
        subprocess.run([sys.executable, "-m", "ebbtide", *words], check=True, stdout=subprocess.DEVNULL)
    found = sorted(lines.glob(f"*-{key}-acks-all.toml"), key=lambda path: path.name.startswith("then-"))
    without, after = found
    return without, after


def _run(folder: Path, scenario: Path, kafka: str) -> str:
    """Run a scenario, and return how many records it acked and lost, or its outcome where that is not known."""
    words = ["run", str(scenario), "--kafka", kafka, "--seed", "1", "--runs", str(folder / "runs"), "--json"]
    done = subprocess.run([sys.executable, "-m", "ebbtide", *words], capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        return f"failed: {done.stderr[-200:]}"
    verdict = json.loads(done.stdout.splitlines()[-1])
    if verdict["outcome"] == "inconclusive":
        return "inconclusive"
    lost = sum(one["count"] for one in verdict["anomalies"] if one["kind"] == "lost")
    return f"{verdict['counts']['acked']:,}, {lost:,}" + (
        ", contradicted" if verdict["outcome"] == "contradicted" else ""
    )


def _row_start(one: RemedySet, key: str) -> tuple[str, ...]:
    topic = ", ".join(f"{name}={value}" for name, value in one.configs.items())
    path = one.kafka + (f" to {one.assume['kafka']}" if "kafka" in one.assume else "")
    changes = ", ".join(f"{name}={value}" for name, value in one.assume.items() if name != "kafka")
    return key, f"{path}, ELR {'on' if one.elr else 'off'}", f"RF {one.rf}, {topic}", changes


def main() -> int:
    """Carry out the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=5)
    args = parser.parse_args()
    folder = args.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + args.minutes * 60
    rows = list(read_measured(_RESULT).rows) if _RESULT.exists() else []
    for one, key in ((each, key) for each in SETS for key in each.keys):
        start = _row_start(one, key)
        if time.monotonic() > until_s or any(row[: len(start)] == start for row in rows):
            continue
        without, after = pair_of(folder, one, key)
        cells = _run(folder, without, one.kafka), _run(folder, after, one.assume.get("kafka", one.kafka))
        rows.append((*start, *cells))
        print(" | ".join(rows[-1]), flush=True)
        write_measured(
            _RESULT,
            Measured(
                title="Do changes together save what none saves alone?",
                about="`ebbtide advise` named these sets of changes. `--scenario` wrote the event's scenario for the "
                "cluster before and after them, and both ran on real Kafka.",
                command="python -m bench.advise_remedies FOLDER",
                commit=version_text(),
                date="2026-11",
                host="two cores with other work",
                columns=_COLUMNS,
                rows=tuple(rows),
            ),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
