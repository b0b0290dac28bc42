"""Counts in recorded runs what each acks setting loses, and writes bench/results/acks.json.

`python -m tools.pages.acks STORE...` takes stores of `ebbtide nightly`. Every figure is counted in the records of the
acks-matrix scenarios: the records for which a producer got an ack, and those that a consumer which reads everything
at the end does not find. With acks=0 a producer gets no ack; its records count as acked when they left the client.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from harness.nightly.store import Store
from tools.pages.measured import RESULTS, Measured, write_measured

RESULT = RESULTS / "acks.json"
PRODUCERS = {"acks-0": "acks=0", "acks-1": "acks=1", "acks-all": "acks=all", "idempotent": "acks=all, idempotent"}
FAULTS = {
    "acks-matrix-kill": "The leader is killed (SIGKILL) while followers lag for a moment",
    "acks-matrix-power-loss": "The leader loses power and its page cache while followers lag for a moment",
    "acks-matrix-partition": "The leader is cut off from the cluster, but not from its clients, until it is deposed",
}

ABOUT = (
    "Each cell is the range of the runs of an `acks-matrix` scenario. Three brokers, RF 3, min.insync.replicas 2, "
    "unclean elections off. Four producers of 200 records/s run side by side on one leader, with one fault in the "
    "middle. *acked* with acks=0: the record left the client. *lost*: acked, and no consumer finds the record at the "
    "end. *silence*: the longest time without an ack."
)


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One producer of one run; `silence_s` is the longest time without an ack."""

    acked: int
    lost: int
    duplicated: int
    silence_s: float


Runs = defaultdict[str, defaultdict[str, list[dict[str, Cell]]]]
"""By scenario and target, the cells of each run."""


def cells(record: Path) -> dict[str, Cell]:
    """Return the cell of each topic, which has one producer.

    A run without a final read has none.
    """
    final = read_manifest(RecordFolder(record)).final_consumer
    if final is None:
        return {}
    polls = ds.dataset([str(one) for one in RecordFolder(record).files("polls")]).to_table(
        filter=pc.field("consumer") == final, columns=["topic", "value"]
    )
    in_log: dict[str, Counter[int]] = defaultdict(Counter)
    for topic, value in zip(polls["topic"].to_pylist(), polls["value"].to_pylist(), strict=True):
        in_log[topic][value] += 1
    sends = ds.dataset([str(one) for one in RecordFolder(record).files("sends")]).to_table(
        filter=pc.field("status") == "acked", columns=["topic", "value", "done_ns"]
    )
    found = {}
    for topic in PRODUCERS:
        mine = sends.filter(pc.field("topic") == topic)
        values, times = mine["value"].to_pylist(), sorted(filter(None, mine["done_ns"].to_pylist()))
        found[topic] = Cell(
            acked=len(values),
            lost=sum(value not in in_log[topic] for value in values),
            duplicated=sum(count > 1 for count in in_log[topic].values()),
            silence_s=max((later - one for one, later in pairwise(times)), default=0) / 1e9,
        )
    return found


def judged_runs(stores: Sequence[Path]) -> Runs:
    """Return the cells of all runs in these stores that ended with a conclusion.

    They ended as predicted or contradicted.
    """
    runs: Runs = defaultdict(lambda: defaultdict(list))
    for folder in stores:
        store = Store(folder)
        for done in store.history():
            if (
                done.job.scenario in FAULTS
                and done.run_id is not None
                and done.ended in ("as-predicted", "contradicted")
            ):
                runs[done.job.scenario][str(done.job.target)].append(cells(store.runs / done.run_id))
    return runs


def measured(runs: Runs) -> Measured:
    """Return a row for each fault, release and producer."""
    return Measured(
        title="What does acks buy?",
        about=ABOUT,
        command="python -m tools.pages.acks STORE...",
        commit="several",
        date=f"{datetime.now(UTC):%Y-%m}",
        host="two cores",
        columns=("fault", "Kafka", "producer", "acked", "lost", "duplicated", "silence, s"),
        rows=tuple(_rows(runs)),
    )


def _rows(runs: Runs) -> Iterator[tuple[str, ...]]:
    for scenario, fault in FAULTS.items():
        for target, found in sorted(runs[scenario].items()):
            for topic, name in PRODUCERS.items():
                of_topic = [cells[topic] for cells in found if topic in cells]
                if of_topic:
                    yield (fault, target, name, *_row(of_topic))


def _row(found: Sequence[Cell]) -> tuple[str, ...]:
    counts = [_range([getattr(one, name) for one in found]) for name in ("acked", "lost", "duplicated")]
    silences = sorted({f"{one.silence_s:.1f}" for one in found}, key=float)
    return (*counts, silences[0] if len(silences) == 1 else f"{silences[0]} to {silences[-1]}")


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def main(argv: Sequence[str]) -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.pages.acks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stores", nargs="+", type=Path, metavar="STORE")
    runs = judged_runs(parser.parse_args(argv).stores)
    if not runs:
        parser.error(f"no STORE has judged runs of {', '.join(FAULTS)}: {RESULT.name} stays as it is")
    write_measured(RESULT, measured(runs))
    print(f"{RESULT} written; now: python -m tools.pages.measurements")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
