"""Writes docs/what-recovery-saves.md from recorded runs.

`python -m tools.pages.recovery [RECORD...]` adds judged run records of the scenarios unclean-recovery and
unclean-recovery-later-epoch to docs/recovered.json, and writes the page from that file. Every figure comes from a
verdict.json and a steps.jsonl.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.pages.recovery_figures import (
    LATER_EPOCH,
    SIDE_BY_SIDE,
    Figures,
    Range,
    Row,
    read_figures,
    with_record,
    write_figures,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "what-recovery-saves.md"
FIGURES = DOCS / "recovered.json"
WAYS = {
    "first-live": "the release: first live replica",
    "last-leader": "the release: last leader",
    "proactive": "Proactive",
    "manual": "Manual, then the operator",
    "balanced": "Balanced",
}

_HEAD = """# What an unclean recovery saves

KIP-966's unclean recovery elects the longest log among the replicas that answer. **No Kafka release has it.** Ebbtide
carries it out from outside, with the step `recover` ([faults](faults-nodes.md#unclean-recovery)). This page counts what
it saved beside what the releases chose.

KIP-966 has three strategies for a partition whose ISR and ELR are empty:

- **Proactive** takes the answers that came by its timeout, or the first one after it.
- **Balanced** waits for the answers of all members of LastKnownElr: the replicas that left both ISR and ELR since the
  ISR fell below min ISR.
- **Manual** elects nobody. It shows the answers, and an operator elects.

The results:

- **The recovery lost nothing wherever the replica with every committed record answered before an election.** The
  releases elected another replica and lost them.
- **It costs time.** Proactive waits for its timeout while a replica is silent. Balanced waits until every member of
  LastKnownElr is back.
- **Proactive asks nobody who comes back after its timeout.** In a run of an earlier schedule, on a busy host, broker 3
  was back only after 15 s. Proactive elected broker 2, and 438 committed records were lost. The schedule now waits for
  broker 3 first.
- **Without the ELR, Balanced comes too late.** On 3.9.1 the last member of the ISR leads again as soon as it is back,
  whatever its disk lost.
- **Its rule is not safe.** The highest last leader epoch wins, and the replica that has it may lack committed records
  ([below](#a-later-epoch-wins-over-committed-records)).

## How it was measured

Each row has the range of its runs of `unclean-recovery` ([scenario](scenarios/unclean-recovery.md)). RF 3,
min.insync.replicas 2, acks=all; five topics with the same replicas are in the same state, and each gets a leader in its
own way. Broker 2 lacks what was acked last, broker 3 has every record, and broker 1, the last leader, lost its log.

- *lost*: committed records that no consumer finds at the end. Each topic had about 550 to 600 records when it lost its
  leader.
- *oldest lost*: how old the oldest lost record was when it was lost (RPO).
- *no leader*: the longest time for which the partition had no leader.
- *no ack*: the longest time for which acks=all records waited and none was acked (RTO). It begins earlier, when the ISR
  falls below min ISR.

The schedule starts broker 3 as soon as the leader is lost. Once broker 3 is unfenced, it recovers by Proactive, then by
Manual, and then starts broker 1. So the time of Manual includes that of Proactive, and the last leader's return comes
after both.

The times depend on the schedule, on the timeouts of the scenario, and on the host: two cores, on which other clusters
ran. The timeouts are 15 s for Proactive and 5 s for Balanced; KIP-966's default is 5 minutes. Compare the rows, not the
seconds.
Write-back is held during a run, so that a power loss takes all since the start.

`python -m tools.pages.recovery` makes this page from recorded runs; do not edit it.
"""

_LATER = """## A later epoch wins over committed records

`unclean-recovery-later-epoch` ([scenario](scenarios/unclean-recovery-later-epoch.md)) plays a counterexample of the
protocol's model on real Kafka. KIP-966 says that an unclean recovery by Balanced loses nothing if one unclean shutdown
of LastKnownElr lost nothing. Here no shutdown lost anything, and Balanced loses committed records:

1. Brokers 1 and 3 have records of the first leader epoch. Broker 2, cut off from them, becomes leader and writes other
   records under the second epoch. Nothing of all that is committed.
2. Broker 3 becomes leader, and broker 1 joins its ISR. The HW passes their records: these are committed. No leader has
   written a record since, so their last epoch is still the first.
3. Brokers 1 and 3 are killed and return. LastKnownElr has both, and both have every committed record.
4. The recovery asks all three. Broker 2 has the highest last epoch, and is elected. Brokers 1 and 3 cut their logs.

`ebbtide spec check --variant kip966 --unclean-recovery balanced --kills 2 --records 2` finds it in the model. The
finding is [longest-log](findings/longest-log.md).

The judge names the cause `unclean-recovery` ([causes](causes.md)).
"""


def page(figures: Figures) -> str:
    """Return the whole page."""
    return "\n".join(_lines(figures))


def _lines(figures: Figures) -> Iterator[str]:
    yield _HEAD
    yield "## Side by side\n"
    yield "| Kafka, runtime | who leads | runs | lost | oldest lost, s | no leader, s | no ack, s | cause |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in figures.rows:
        yield f"| {row.target} | {WAYS[row.topic]} | {_cells(row)} |"
    yield ""
    yield _LATER
    yield "| Kafka, runtime | elected | last epoch and log end of brokers 1, 2, 3 | lost | outcome |"
    yield "|---|---|---|---|---|"
    for one in figures.later:
        yield f"| {one.target} | {one.elected} | {one.ends} | {one.lost:,} | {one.outcome} |"
    yield ""


def _cells(row: Row) -> str:
    times = [_text(times_s, "{:.1f}") for times_s in (row.oldest_s, row.no_leader_s, row.no_ack_s)]
    return " | ".join([str(row.runs), _text(row.lost, "{:,.0f}"), *times, ", ".join(row.causes) or "-"])


def _text(values: Range | None, form: str) -> str:
    """Return the least and the greatest value; `-` if none is known."""
    if values is None:
        return "-"
    low, high = (form.format(one) for one in values)
    return low if low == high else f"{low} to {high}"


def main(argv: Sequence[str]) -> int:
    """Add the records and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.pages.recovery", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", nargs="*", type=Path, metavar="RECORD")
    records = parser.parse_args(argv).records
    figures = read_figures(FIGURES)
    for record in records:
        after = with_record(figures, record, tuple(WAYS))
        if after == figures:
            parser.error(
                f"{record} is no conclusive run of {SIDE_BY_SIDE} or {LATER_EPOCH}, or it was added before: "
                f"{PAGE.name} stays as it is"
            )
        figures = after
    write_figures(FIGURES, figures)
    PAGE.write_text(page(figures))
    print(f"{PAGE} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
