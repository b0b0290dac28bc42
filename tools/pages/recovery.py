"""Writes docs/what-recovery-saves.md from recorded runs.

`python -m tools.pages.recovery RECORD...` takes judged run records of the scenarios unclean-recovery and
unclean-recovery-later-epoch. Every figure comes from their verdict.json and steps.jsonl.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import StepEntry, read_steps
from ebbtide.record.verdict import Unavailability, Verdict, read_judgement

PAGE = Path(__file__).resolve().parents[2] / "docs" / "what-recovery-saves.md"
SIDE_BY_SIDE = "unclean-recovery"
LATER_EPOCH = "unclean-recovery-later-epoch"
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

- **On these runs the recovery lost nothing, wherever it came before Kafka's own election.** One replica had every
  committed record. The releases elected another replica and lost them.
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


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One topic of one run; times in seconds, None: not known or none."""

    lost: int
    oldest_s: float | None
    no_leader_s: float | None
    no_ack_s: float | None
    cause: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One judged record."""

    scenario: str
    target: str
    outcome: str
    cells: Mapping[str, Cell]
    recoveries: tuple[StepEntry, ...]


def read_run(record: Path) -> Run:
    """Return the figures of one record. Raises `UsageError` for a record that has not been judged."""
    manifest, verdict = read_manifest(record), read_judgement(record)
    return Run(
        scenario=manifest.scenario,
        target=f"{manifest.kafka}, {manifest.runtime}",
        outcome=verdict.outcome,
        cells={topic: _cell(verdict, topic) for topic in manifest.topics},
        recoveries=tuple(one for one in read_steps(record) or () if one.step == "recover"),
    )


def _cell(verdict: Verdict, topic: str) -> Cell:
    lost = [one for one in verdict.losses if one.topic == topic and one.committed]
    ages = [one.oldest_s for one in lost if one.oldest_s is not None]
    waits = next((one for one in verdict.unavailable if one.topic == topic), Unavailability(topic=topic, partition=0))
    return Cell(
        lost=sum(one.count for one in lost),
        oldest_s=max(ages, default=None),
        no_leader_s=waits.no_leader.longest_s if waits.no_leader is not None else None,
        no_ack_s=waits.no_ack.longest_s if waits.no_ack is not None else None,
        cause=", ".join(sorted({one.cause for one in lost})) or "-",
    )


def page(runs: Sequence[Run]) -> str:
    """Return the whole page."""
    return "\n".join(_lines(runs))


def _lines(runs: Sequence[Run]) -> Iterator[str]:
    yield _HEAD
    yield "## Side by side\n"
    yield "| Kafka, runtime | who leads | runs | lost | oldest lost, s | no leader, s | no ack, s | cause |"
    yield "|---|---|---|---|---|---|---|---|"
    for target, found in _by_target(runs, SIDE_BY_SIDE):
        for topic, way in WAYS.items():
            yield f"| {target} | {way} | {_row([one.cells[topic] for one in found])} |"
    yield ""
    yield _LATER
    yield "| Kafka, runtime | elected | last epoch and log end of brokers 1, 2, 3 | lost | outcome |"
    yield "|---|---|---|---|---|"
    for target, found in _by_target(runs, LATER_EPOCH):
        for one in found:
            proof = one.recoveries[-1].proof
            chosen = f"broker {proof.get('chosen', '-')}"
            yield f"| {target} | {chosen} | {_ends(proof)} | {_lost(one)} | {one.outcome} |"
    yield ""


def _ends(proof: Mapping[str, object]) -> str:
    replies = proof.get("replies")
    if not isinstance(replies, dict):
        return "-"
    return "; ".join(
        f"{one['last_epoch']} and {one['log_end_offset']:,}" if "last_epoch" in one else "no answer"
        for _, one in sorted(replies.items())
    )


def _lost(run: Run) -> str:
    return f"{sum(one.lost for one in run.cells.values()):,}"


def _by_target(runs: Sequence[Run], scenario: str) -> list[tuple[str, list[Run]]]:
    groups: defaultdict[str, list[Run]] = defaultdict(list)
    for one in runs:
        if one.scenario == scenario:
            groups[one.target].append(one)
    return sorted(groups.items())


def _row(cells: Sequence[Cell]) -> str:
    lost = _range([one.lost for one in cells], "{:,.0f}")
    times = [
        _range([getattr(one, name) for one in cells], "{:.1f}") for name in ("oldest_s", "no_leader_s", "no_ack_s")
    ]
    causes = ", ".join(sorted({one.cause for one in cells}))
    return " | ".join([str(len(cells)), lost, *times, causes])


def _range(values: Sequence[float | None], form: str) -> str:
    """Return the least and the greatest known value; `-` if none is known."""
    known = [one for one in values if one is not None]
    if not known:
        return "-"
    low, high = form.format(min(known)), form.format(max(known))
    return low if low == high else f"{low} to {high}"


def _counts(run: Run) -> bool:
    """Whether the page has the run: a conclusive one, or one whose recovery is proven where nothing else counts."""
    if run.scenario == LATER_EPOCH:
        return bool(run.recoveries) and run.recoveries[-1].effect_ns is not None
    return run.scenario == SIDE_BY_SIDE and run.outcome != "inconclusive"


def main(argv: Sequence[str]) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.pages.recovery", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORD")
    runs = [read_run(one) for one in parser.parse_args(argv).records]
    runs = [one for one in runs if _counts(one)]
    if not runs:
        parser.error(f"no RECORD is a conclusive run of {SIDE_BY_SIDE} or {LATER_EPOCH}: {PAGE.name} stays as it is")
    PAGE.write_text(page(runs))
    print(f"{PAGE} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
