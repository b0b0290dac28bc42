"""KIP-101: a leader appends each batch under its own leader epoch.

The epoch of an acked record in the replicas' logs is held against the time at which it was sent. A new leader that
answers for its epoch no longer replicates from a leader of an older one. If the old leader could not commit without the
new one, no record that is sent afterwards can be acked with acks=all under the old epoch:

- The new leader was in the ISR in each state of the old epoch, so the old leader waits for its fetches.
- It did not register again afterwards: a broker that starts may know old metadata for a while.

A state of a newer epoch must follow, so that no state of the old one is missing. Only the logs of the last ISR count. A
deposed leader that never came back may keep its own copy of a record, which its client then sent to the new leader.
Where a log lost records or an election left ISR and ELR, the clause is unknown: such a copy may have become the record.

First, the sends are compared by blocks of 64 offsets, as they are many. Where that shows something, the rows decide:
the record with that value has the old epoch at that offset in a replica's log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow.compute as pc

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding
from analysis.judge.rules.lossy import why_lossy
from analysis.record.files import of_partition
from analysis.record.groups import BITS, added_up
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from analysis.record.timeline import Timeline
from ebbtide.logs.segments import TopicPartition


class EpochEnd(NamedTuple):
    """From `since_ns` on, no record was committed under a leader epoch: `broker` answered for a newer one."""

    since_ns: int
    broker: int


class LateEpoch(NamedTuple):
    """Offsets `first` to `last` of a partition have a leader epoch, and some were sent after its end."""

    at: TopicPartition
    leader_epoch: int
    first: int
    last: int
    end: EpochEnd


class EpochsOfAcks(NamedTuple):
    """How many leader epochs have a known end, and those that may have later records."""

    ended: int
    late: Sequence[LateEpoch]


class FindLateEpochs(Scan[EpochsOfAcks]):
    """Compares when records were sent with when their leader epochs were over, by blocks of offsets."""

    columns: ClassVar[dict[str, tuple[str, ...]]] = {
        "sends": ("topic", "partition", "acks", "status", "offset", "sent_ns"),
        "watermarks": ("topic", "partition", "broker", "leader_epoch", "source", "at_ns"),
        "replicas": ("topic", "partition", "leader_epoch", "offset"),
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._timeline = record.timeline
        self._sent: dict[TopicPartition, dict[int, int]] = {}
        self._answered: dict[TopicPartition, dict[tuple[int, int], int]] = {}
        self._epochs: dict[TopicPartition, dict[int, tuple[int, int]]] = {}

    def add(self, rows: Rows) -> None:
        """Add a batch of one of the tables."""
        if rows.table == "sends":
            self._add_sends(rows)
        elif rows.table == "watermarks":
            asked = rows.where_word("source", "list_offsets") & rows.known("leader_epoch")
            for (topic, partition, broker, epoch), every in rows.parts("partition", "broker", "leader_epoch"):
                if len(here := every[asked[every]]):
                    answered = self._answered.setdefault(TopicPartition(topic, partition), {})
                    first = int(rows.numbers("at_ns")[here].min())
                    answered[broker, epoch] = min(first, answered.get((broker, epoch), first))
        else:
            for (topic, partition, epoch), here in rows.parts("partition", "leader_epoch"):
                offsets = rows.numbers("offset")[here]
                epochs = self._epochs.setdefault(TopicPartition(topic, partition), {})
                first, last = int(offsets.min()), int(offsets.max())
                before = epochs.get(epoch, (first, last))
                epochs[epoch] = min(first, before[0]), max(last, before[1])

    def _add_sends(self, rows: Rows) -> None:
        """Keep when the newest record of each block was sent."""
        acked = rows.where_word("status", "acked") & (rows.numbers("acks") == -1) & rows.known("offset")
        offset, sent = rows.numbers("offset"), rows.numbers("sent_ns")
        for place, every in rows.parts("partition"):
            if len(here := every[acked[every]]):
                newest = self._sent.setdefault(TopicPartition(*place), {})
                (blocks,), found = added_up([offset[here] >> BITS], {"sent": sent[here]}, {"sent": np.maximum})
                for block, at_ns in zip(blocks.tolist(), found["sent"].tolist(), strict=True):
                    newest[block] = max(at_ns, newest.get(block, at_ns))

    def result(self) -> EpochsOfAcks:
        """Return the epochs."""
        late: list[LateEpoch] = []
        ended = 0
        every = [(at, epoch, ends) for at, epochs in self._epochs.items() for epoch, ends in epochs.items()]
        for at, epoch, (first, last) in every:
            if (end := self._end_of(at, epoch)) is None:
                continue
            ended += 1
            others = [one for other, one in self._epochs[at].items() if other != epoch]
            if any(
                sent > end.since_ns and first >> BITS <= block <= last >> BITS and not _is_shared(block, others)
                for block, sent in self._sent.get(at, {}).items()
            ):
                late.append(LateEpoch(at, epoch, first, last, end))
        return EpochsOfAcks(ended, late)

    def _end_of(self, at: TopicPartition, epoch: int) -> EpochEnd | None:
        states = self._timeline.states(*at)
        isrs = [set(state.isr) for state in states if state.leader_epoch == epoch]
        always = set.intersection(*isrs) if isrs and states[-1].leader_epoch > epoch else set()
        ends = [
            EpochEnd(at_ns, broker)
            for (broker, newer), at_ns in self._answered.get(at, {}).items()
            if newer > epoch and broker in always and not _registers_after(self._timeline, broker, at_ns)
        ]
        return min(ends, default=None)


def _is_shared(block: int, others: Sequence[tuple[int, int]]) -> bool:
    """Whether records of other leader epochs are in a block: which of its records was sent last is not known."""
    return any(first >> BITS <= block <= last >> BITS for first, last in others)


def _registers_after(timeline: Timeline, broker: int, at_ns: int) -> bool:
    return any(one.broker == broker and one.event == "registered" and one.at_ns > at_ns for one in timeline.brokers)


def _late_records(record: Record, late: LateEpoch) -> Iterator[Row]:
    """Yield the acked records that were sent after the end of their leader epoch, by the rows."""
    here = of_partition(*late.at) & pc.field("offset").is_valid()
    here &= (pc.field("offset") >= late.first) & (pc.field("offset") <= late.last)
    acked = here & (pc.field("status") == "acked") & (pc.field("acks") == -1)
    sent: dict[int, tuple[int, int]] = {}
    for batch in record.batches(
        "sends", ["offset", "value", "sent_ns"], acked & (pc.field("sent_ns") > late.end.since_ns)
    ):
        for row in batch.to_pylist():
            sent[row["offset"]] = row["value"], row["sent_ns"]
    in_log = here & (pc.field("leader_epoch") == late.leader_epoch) & pc.field("offset").isin([*sent])
    in_log &= pc.field("broker").isin(record.timeline.states(*late.at)[-1].isr)
    shown: set[int] = set()
    for batch in record.batches("replicas", ["offset", "value"], in_log):
        for row in batch.to_pylist():
            offset = row["offset"]
            if offset not in shown and row["value"] == sent[offset][0]:
                shown.add(offset)
                yield {"topic": late.at.topic, "partition": late.at.partition, "offset": offset} | {
                    "leader_epoch": late.leader_epoch,
                    "sent_ns": sent[offset][1],
                    "newer_leader": late.end.broker,
                    "answered_ns": late.end.since_ns,
                }


_COPY = "a log lost records, or an election left ISR and ELR: a deposed leader's own copy may have become the record"


def _check(judged: Judged) -> Finding:
    record = judged.record
    found = record.seen(FindLateEpochs)
    late = [row for one in found.late for row in _late_records(record, one)]
    doubt = "a clock was set" if record.unsure_spans else _COPY if late and why_lossy(record) is not None else None
    return finding(exercised=found.ended, violations=late, doubt=doubt)


RULE = Clause(
    kip="KIP-101",
    check=_check,
    scans=(FindLateEpochs,),
    parts=("sends", "watermarks", "replicas"),
    needed="never",
    compares_times=True,
    unknown_when=(
        "a record has an old epoch, and a clock was set, a log lost records or an election left ISR and ELR. Only "
        "where a newer leader answered, and was not restarted afterwards"
    ),
    example="""
        Broker 2 leads in epoch 1, and answers at 10 s. A record that is sent at 20 s and acked has epoch 0.
        partitions: leader=1; at=5 leader=2
        watermarks: broker=2 leader_epoch=1 high_watermark=0 at=10
        sends: at=20 value=1 offset=0
        replicas: broker=1 value=1 offset=0
        gives: offset=0 leader_epoch=0 newer_leader=2
    """,
)
