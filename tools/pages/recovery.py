"""Counts in recorded runs what KIP-966's unclean recovery saves.

`python -m tools.pages.recovery [RECORD...]` adds judged run records of the scenarios unclean-recovery and
unclean-recovery-later-epoch to bench/results/recovered.json. Every figure comes from a verdict.json and a steps.jsonl.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tools.pages.measured import RESULTS, Measured
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

FIGURES = RESULTS / "recovered.json"
WAYS = {
    "first-live": "the release: first live replica",
    "last-leader": "the release: last leader",
    "proactive": "Proactive",
    "manual": "Manual, then the operator",
    "balanced": "Balanced",
}

_COMMAND = "python -m tools.pages.recovery RECORD..."
_SIDE_BY_SIDE = (
    "Each row is the range of its runs of [unclean-recovery](scenarios/unclean-recovery.md). RF 3, "
    "min.insync.replicas 2, acks=all. Five topics are in the same state, and each gets a leader in its own way. "
    "Broker 2 lacks what was acked last, broker 3 has every record, and broker 1, the last leader, lost its log. "
    "*lost*: committed records that no consumer finds at the end, of about 550 to 600. *oldest lost*: the age of "
    "the oldest one when it was lost. The times depend on the schedule and the host, so compare rows and not "
    "seconds. Proactive waits 15 s here, Balanced 5 s; KIP-966's default is 5 minutes."
)
_LATER = (
    "The scenario [unclean-recovery-later-epoch](scenarios/unclean-recovery-later-epoch.md) plays a counterexample "
    "of the protocol's model on real Kafka ([longest-log](findings/longest-log.md)). The broker with the highest "
    "last epoch is elected, and lacks committed records."
)


def measured(figures: Figures) -> tuple[Measured, Measured]:
    """Return what the strategies saved side by side, and what a later epoch lost."""
    side_by_side = Measured(
        title="What does an unclean recovery save?",
        about=_SIDE_BY_SIDE,
        command=_COMMAND,
        commit="several",
        date="2026-11",
        host="two cores with other work",
        columns=("Kafka, runtime", "who leads", "runs", "lost", "oldest lost, s", "no leader, s", "no ack, s", "cause"),
        rows=tuple((row.target, WAYS[row.topic], *_cells(row)) for row in figures.rows),
    )
    later = msgspec.structs.replace(
        side_by_side,
        title="What does KIP-966's rule for recoveries lose?",
        about=_LATER,
        columns=("Kafka, runtime", "elected", "last epoch and log end of brokers 1, 2, 3", "lost", "outcome"),
        rows=tuple((run.target, run.elected, run.ends, f"{run.lost:,}", run.outcome) for run in figures.later),
    )
    return side_by_side, later


def _cells(row: Row) -> tuple[str, ...]:
    times = [_text(times_s, "{:.1f}") for times_s in (row.oldest_s, row.no_leader_s, row.no_ack_s)]
    return (str(row.runs), _text(row.lost, "{:,.0f}"), *times, ", ".join(row.causes) or "-")


def _text(values: Range | None, form: str) -> str:
    """Return the least and the greatest value; `-` if none is known."""
    if values is None:
        return "-"
    low, high = (form.format(one) for one in values)
    return low if low == high else f"{low} to {high}"


def main(argv: Sequence[str]) -> int:
    """Add the records."""
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
                f"{FIGURES.name} stays as it is"
            )
        figures = after
    write_figures(FIGURES, figures)
    print(f"{FIGURES} written; now: python -m tools.pages.measurements")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
