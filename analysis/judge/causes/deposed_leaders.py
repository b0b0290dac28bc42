"""Says whether a record may be older than an election before its ack: a deposed leader may have appended it.

A deposed leader may go on appending until it learns of its successor, and a client notes an ack late. Without that
possibility an election before the record was sent cannot have lost it.
"""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from analysis.judge.history.evidence import LostOffset
from analysis.judge.history.following import has_followed
from analysis.record.elections import ElectionEvent
from analysis.record.files import of_partition
from analysis.record.record import Record
from analysis.record.timeline import MILLISECOND_NS
from ebbtide.record.rows import PartitionState


class LostRecord:
    """What the clients' tables say of the record that was acked with a lost offset.

    They are read at the first question.
    """

    def __init__(self, record: Record, lost_offset: LostOffset) -> None:
        self._record = record
        self._lost = lost_offset

    def may_be_older_than(self, elected: ElectionEvent) -> bool:
        """Return whether leaders before `elected` may have appended the record, and acked it.

        They cannot have if each was dead when it was sent, or had learnt of the election by then. Nor can they if
        consumers read it, and only under newer epochs.
        """
        if self._read_epochs and min(self._read_epochs) >= elected.epoch:
            return False
        states = self._record.timeline.states(self._lost.topic, self._lost.partition)
        last_led = {one.leader: one for one in states if one.leader_epoch < elected.epoch}
        return any(
            self._may_have_acked(state, elected)
            for broker, state in last_led.items()
            if broker not in (-1, elected.leader)
        )

    def _may_have_acked(self, deposed: PartitionState, elected: ElectionEvent) -> bool:
        """Return whether a leader may have acked the record although it was deposed.

        It cannot change its ISR any more. To commit, it needs the whole, and for acks=all at least min ISR.
        """
        min_isr = self._record.protocol.min_isr(elected.before, elected.after.metadata_offset)
        if self._lost.had_min_isr and min_isr is not None and len(deposed.isr) < min_isr:
            return False
        sent_ns = self._sent_ns
        needed = deposed.isr if self._lost.committed else (deposed.leader,)
        return sent_ns is None or all(self._may_not_know(one, elected, sent_ns) for one in needed)

    def _may_not_know(self, broker: int, elected: ElectionEvent, by_ns: int) -> bool:
        """Return whether a replica may have been alive at a time and not have learnt of the election by then."""
        is_dead = _is_dead(self._record, broker, by_ns)
        return not is_dead and not _has_learnt(self._record, broker, elected, by_ns)

    @cached_property
    def _sent_ns(self) -> int | None:
        """When the record was sent, the earliest if several were acked at its offset; None: not known."""
        return min((sent_ns for sent_ns, _ in self._sends), default=None)

    @cached_property
    def _sends(self) -> list[tuple[int, int]]:
        """The time and the value of each record that was acked at the offset."""
        rows = self._record.batches("sends", ["sent_ns", "value"], self._here & (pc.field("status") == "acked"))
        return [(row["sent_ns"], row["value"]) for batch in rows for row in batch.to_pylist()]

    @cached_property
    def _read_epochs(self) -> list[int]:
        """The leader epochs under which consumers read the record; -1: an unknown one."""
        is_it = pc.field("value").isin(pa.array([value for _, value in self._sends], pa.int64()))
        rows = self._record.batches("polls", ["leader_epoch"], self._here & is_it)
        return [-1 if one is None else one for batch in rows for one in batch["leader_epoch"].to_pylist()]

    @property
    def _here(self) -> pc.Expression:
        return of_partition(self._lost.topic, self._lost.partition) & (pc.field("offset") == self._lost.offset)


def _is_dead(record: Record, broker: int, at_ns: int) -> bool:
    """Return whether a step had ended the broker's process, and it had not registered again."""
    started = [one.at_ns for one in record.timeline.brokers if one.broker == broker and one.event == "registered"]
    return any(
        one.done_ns <= at_ns and not any(one.fired_ns <= start_ns + MILLISECOND_NS <= at_ns for start_ns in started)
        for one in record.stops
        if one.broker == broker
    )


def _has_learnt(record: Record, broker: int, elected: ElectionEvent, by_ns: int) -> bool:
    """Return whether a broker has started again, or has followed a new leader, after the election and by a time."""
    latest_ns = by_ns - MILLISECOND_NS
    started = any(
        event.broker == broker and event.event == "registered" and elected.after.at_ns < event.at_ns <= latest_ns
        for event in record.timeline.brokers
    )
    topic, partition = elected.after.topic, elected.after.partition
    states = record.timeline.states(topic, partition)
    since = [one for one in states if one.leader_epoch >= elected.epoch and one.at_ns <= latest_ns]
    begun = record.epochs.traces.get((topic, partition, elected.epoch))
    passed = None if begun is None else (pc.field("high_watermark") > begun.start) & (pc.field("at_ns") < by_ns)
    return started or has_followed(record, broker, elected, since, passed)
