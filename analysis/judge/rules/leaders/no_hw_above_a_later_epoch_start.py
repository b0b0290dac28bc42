"""KIP-101: what is committed is in the log of each later leader, so no HW is above the start of a later leader epoch.

A broker logs its HW when it begins to lead or to follow in an epoch. It has that HW from epochs in which it led or
followed before, or from its checkpoint. A leader logs where its log ends when it begins to lead. Both lines are held
against each other, whenever they were written, if no disk lost records of the partition and each election was clean.
The clause on committed losses judges an election from the ELR that lost some; the starts of epochs from there on do
not count here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from analysis.judge.history.evidence import Row
from analysis.judge.history.log_lines import EpochStart, clean_epoch_starts
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.judge.rules.lossy import elections_from_a_wrong_elr


def _check(judged: Judged) -> Finding:
    record = judged.record
    cases = Cases()
    wrong = elections_from_a_wrong_elr(judged)
    for at, lines in clean_epoch_starts(record).items():
        until_epoch = min(
            (one.epoch for one in wrong if (one.after.topic, one.after.partition) == at), default=math.inf
        )
        started: dict[int, EpochStart] = {}
        for line in sorted(lines, key=lambda one: one.log_end):
            if line.leads and line.leader_epoch < until_epoch:
                started.setdefault(line.leader_epoch, line)
        for line, newest in _with_epochs_before(lines):
            later = [one for epoch, one in started.items() if epoch > newest]
            lowest = min(later, key=lambda one: (one.log_end, one.leader_epoch), default=None)
            if lowest is not None:
                row: Row = {**at._asdict(), "broker": line.broker, "high_watermark": line.high_watermark}
                row |= {"at_ns": line.at_ns, "newest_epoch": newest, "leader": lowest.broker}
                row |= {"leader_epoch": lowest.leader_epoch, "epoch_start": lowest.log_end}
                cases.add(row if line.high_watermark > lowest.log_end else None)
    return cases.finding(record.why_metadata_may_be_undone)


def _with_epochs_before(lines: Sequence[EpochStart]) -> Iterator[tuple[EpochStart, int]]:
    """Yield each line but the first of each broker, with the newest epoch in which the broker was before."""
    newest: dict[int, int] = {}
    for line in lines:
        if line.broker in newest:
            yield line, newest[line.broker]
        newest[line.broker] = max(line.leader_epoch, newest.get(line.broker, -1))


RULE = Clause(
    kip="KIP-101",
    check=_check,
    needed="never",
    unknown_when=(
        "a HW is above the start of a later epoch, and a controller lost its log. Only where the logs of brokers are "
        "there, and no step took records"
    ),
    example="""
        Broker 2 starts again, and has the HW 9 from epoch 0. Epoch 1 had begun at offset 7.
        partitions: leader=1; at=40 leader=3 isr=1,3
        steps: step=kill nodes=2 at=30
        logs: node=broker-2 at=1
            says=Follower_t-0_starts_at_leader_epoch_0_from_offset_0_with_partition_epoch_0_and_high_watermark_0._The_previous_leader_epoch_was_-1.;
          node=broker-3 at=41
            says=Leader_t-0_starts_at_leader_epoch_1_from_offset_7_with_partition_epoch_1,_high_watermark_7._The_previous_leader_epoch_was_0.;
          node=broker-2 at=50
            says=Follower_t-0_starts_at_leader_epoch_1_from_offset_9_with_partition_epoch_1_and_high_watermark_9._The_previous_leader_epoch_was_-1.
        gives: broker=2 high_watermark=9 epoch_start=7
    """,
)
