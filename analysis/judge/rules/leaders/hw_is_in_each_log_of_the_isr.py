"""KIP-966: a record must be on each member of the ISR before the HW passes it.

So the HW that a follower got from its leader is not above the end of the log of any member of the ISR. A broker logs
its own HW and the end of its log when a new leader epoch begins, before it truncates. The lines of the last ISR of the
old epoch are held against each other where nothing can have changed between them:

- The old leader's process had ended before all of these lines, so nobody fetched anything in between.
  If it starts again at once, its own line says nothing: its disk may have lost the log.
- Each broker had followed in the old epoch, and its process went on: the line names the old epoch as the one before.
- Before that, no disk had lost records of the partition, and no election had left ISR and ELR.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from analysis.judge.history.evidence import Row
from analysis.judge.history.log_lines import EpochStart, epoch_starts
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.record.clock_steps import CLOCKS_AGREE_NS
from analysis.record.record import Record
from ebbtide.record.rows import PartitionState


def _check(judged: Judged) -> Finding:
    record = judged.record
    cases = Cases()
    ended = [*_changes(record)]
    lines = (
        [line for broker in record.manifest.topology.brokers for line in epoch_starts(record, broker)] if ended else []
    )
    for before, after, ended_ns in ended:
        name = f"{after.topic}-{after.partition}"
        mine = [
            line
            for line in lines
            if (line.partition, line.leader_epoch, line.epoch_before) == (name, after.leader_epoch, before.leader_epoch)
            and line.broker in {*before.isr} - {before.leader}
            and line.at_ns > ended_ns + CLOCKS_AGREE_NS
        ]
        if len({line.broker for line in mine}) > 1:
            cases.add(*_above(after, mine))
    return cases.finding(record.why_metadata_may_be_undone)


def _above(after: PartitionState, lines: Sequence[EpochStart]) -> list[Row]:
    """Return the highest HW, if it is above the lowest end of a log."""
    highest = max(lines, key=lambda line: line.high_watermark)
    shortest = min(lines, key=lambda line: line.log_end)
    if highest.high_watermark <= shortest.log_end:
        return []
    row = {"topic": after.topic, "partition": after.partition, "leader_epoch": after.leader_epoch}
    row |= {"broker": highest.broker, "high_watermark": highest.high_watermark, "at_ns": highest.at_ns}
    return [{**row, "log_of": shortest.broker, "log_end": shortest.log_end}]


def _changes(record: Record) -> Iterator[tuple[PartitionState, PartitionState, int]]:
    """Yield the last state of each leader epoch whose leader's process ended, the next one, and when it ended."""
    steps = record.proven_steps
    if steps is None or record.log_losses is None or (record.manifest.log_dirs or 1) > 1:
        return
    ends = [(node, ended.last_ns) for step in steps for node in step.nodes if (ended := step.times_of(node).ended)]
    for (topic, partition), states in record.timeline.partitions.items():
        unclean = [
            one.after.at_ns
            for one in record.elections
            if (one.after.topic, one.after.partition) == (topic, partition) and (one.is_from_outside or one.removes_isr)
        ]
        epochs = {state.leader_epoch: state.at_ns for state in reversed(states)}
        for before, after in pairwise(states):
            begins_ns = epochs[before.leader_epoch]
            mine = [at for node, at in ends if node == before.leader and begins_ns < at < after.at_ns - CLOCKS_AGREE_NS]
            lost = any(
                loss.costs(topic, partition) and loss.fired_ns <= after.at_ns + CLOCKS_AGREE_NS
                for loss in record.log_losses
                if loss.broker != before.leader or loss.fired_ns < begins_ns
            )
            is_next = after.leader_epoch == before.leader_epoch + 1 and not after.lacks_record_since(before)
            if mine and is_next and not lost and not any(at <= after.at_ns for at in unclean):
                yield before, after, max(mine)


RULE = Clause(
    kip="KIP-966",
    check=_check,
    needed="never",
    compares_times=True,
    unknown_when=(
        "a HW is above the end of a log, and a controller lost its log. Only where a step ended the leader's process, "
        "and the logs of brokers are there"
    ),
    example="""
        Broker 1 is killed. As the next epoch begins, broker 2 has the HW 9, and the log of broker 3 ends at 7.
        partitions: leader=1; at=40 leader=2 isr=2,3
        steps: step=kill nodes=1 at=30
        logs: node=broker-2 at=41
            says=Leader_t-0_starts_at_leader_epoch_1_from_offset_9_with_partition_epoch_1,_high_watermark_9._The_previous_leader_epoch_was_0.;
          node=broker-3 at=41
            says=Follower_t-0_starts_at_leader_epoch_1_from_offset_7_with_partition_epoch_1_and_high_watermark_7._The_previous_leader_epoch_was_0.
        gives: broker=2 high_watermark=9 log_of=3 log_end=7
    """,
)
