"""docs/what-acks-buys.md from recorded runs: `python -m tools.pages.acks STORE...`, stores of `ebbtide nightly`.

Every figure is counted in the records of the acks-matrix scenarios: what a producer was told is written, and what a
consumer that reads everything at the end no longer finds. With acks=0 a producer is told nothing; its records count as
told when they left the client.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ebbtide.record.manifest import read_manifest
from ebbtide.record.tables import table_files
from harness.nightly.store import Store

PAGE = Path(__file__).resolve().parents[2] / "docs" / "what-acks-buys.md"
PRODUCERS = {"acks-0": "acks=0", "acks-1": "acks=1", "acks-all": "acks=all", "idempotent": "acks=all, idempotent"}
FAULTS = {
    "acks-matrix-kill": "the leader is killed (SIGKILL) while followers lag for a moment",
    "acks-matrix-power-loss": "the leader loses power, and with it its page cache, while followers lag for a moment",
    "acks-matrix-partition": "the leader is cut off from the cluster, but not from its clients, until it is deposed",
}

_HEAD = """# What acks buys

Made by `python -m tools.pages.acks` from recorded runs of the three `acks-matrix` scenarios
([scenarios.md](scenarios.md)); do not edit. Three brokers, RF 3, min.insync.replicas 2, unclean elections off; four
producers of 200 records/s side by side on one leader until the run ends, with one fault in the middle. *Lost*:
the producer was told that the record is written (acks=0: it left the client), and at the end no consumer finds it.
*Twice*: records that stand in the log more than once. *Longest silence*: the longest time in which no record of
this producer was acked. Each cell is one run, or the range of several.
"""

_TAIL = """## How to read it

- **acks=0 and acks=1 lose records whenever a leader goes**, on every release: nothing that only the leader has
  survives it. What they lose is what was sent while followers lagged, or while a deposed leader did not know that
  it was. No setting of the topic changes that.
- **acks=all with min.insync.replicas 2 lost nothing here**: a record is acked once every member of the ISR has it, and
  they are at least two; one of them leads next. It is paid for in silence: while the ISR is too small, or nobody leads,
  nothing is acked.
- **Idempotence loses no less and no more than acks=all**; it keeps retries from writing a record twice.
- **What acks=all does not cover is flushing.** An acked record may be in page caches only. Two power losses in one
  ISR, or one at the last member of the ISR without ELR, lose acked records: `last-replica-standing`, `rack-power`
  and `power-losses-beyond-tolerance-3-2` in [scenarios.md](scenarios.md) say on which releases, and
  `rack-power-flushed` what `flush.messages=1` changes.
"""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One producer of one run; `silence_s` is the longest time without an ack."""

    told: int
    lost: int
    twice: int
    silence_s: float


Runs = defaultdict[str, defaultdict[str, list[dict[str, Cell]]]]
"""By scenario and target, the cells of each run."""


def cells(record: Path) -> dict[str, Cell]:
    """Per topic what its one producer was told, and what became of it. A run without a final read has none."""
    final = read_manifest(record).final_consumer
    if final is None:
        return {}
    polls = ds.dataset([str(one) for one in table_files(record, "polls")]).to_table(
        filter=pc.field("consumer") == final, columns=["topic", "value"]
    )
    standing: dict[str, Counter[int]] = defaultdict(Counter)
    for topic, value in zip(polls["topic"].to_pylist(), polls["value"].to_pylist(), strict=True):
        standing[topic][value] += 1
    sends = ds.dataset([str(one) for one in table_files(record, "sends")]).to_table(
        filter=pc.field("status") == "acked", columns=["topic", "value", "done_ns"]
    )
    found = {}
    for topic in PRODUCERS:
        mine = sends.filter(pc.field("topic") == topic)
        values, times = mine["value"].to_pylist(), sorted(filter(None, mine["done_ns"].to_pylist()))
        found[topic] = Cell(
            told=len(values),
            lost=sum(value not in standing[topic] for value in values),
            twice=sum(count > 1 for count in standing[topic].values()),
            silence_s=max((later - one for one, later in pairwise(times)), default=0) / 1e9,
        )
    return found


def judged_runs(stores: Sequence[Path]) -> Runs:
    """The cells of all runs of these stores that were judged and proved something."""
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


def page(runs: Runs) -> str:
    """The whole page."""
    return "\n".join(_lines(runs))


def _lines(runs: Runs) -> Iterator[str]:
    yield _HEAD
    for scenario, what in FAULTS.items():
        yield f"## {what[0].upper()}{what[1:]}\n"
        yield "| Kafka | producer | told written | lost | twice | longest silence, s |"
        yield "|---|---|---|---|---|---|"
        for target, found in sorted(runs[scenario].items()):
            for topic, name in PRODUCERS.items():
                of_topic = [one[topic] for one in found if topic in one]
                if of_topic:
                    yield f"| {target} | {name} | {_row(of_topic)} |"
        yield ""
    yield _TAIL


def _row(found: Sequence[Cell]) -> str:
    counts = [_range([getattr(one, name) for one in found]) for name in ("told", "lost", "twice")]
    silences = sorted({f"{one.silence_s:.1f}" for one in found}, key=float)
    return " | ".join([*counts, silences[0] if len(silences) == 1 else f"{silences[0]} to {silences[-1]}"])


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def main(argv: Sequence[str]) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.pages.acks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stores", nargs="+", type=Path, metavar="STORE")
    runs = judged_runs(parser.parse_args(argv).stores)
    if not runs:
        parser.error(f"no STORE has judged runs of {', '.join(FAULTS)}: {PAGE.name} stays as it is")
    PAGE.write_text(page(runs))
    print(f"{PAGE} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
