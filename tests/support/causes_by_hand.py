"""Partitions whose history is written by hand, for the causes. Times are in seconds; the replicas are 1, 2 and 3."""

from __future__ import annotations

from typing import Any

from analysis.causes.answer import CauseAnswer, answer
from analysis.causes.evidence import (
    NEVER,
    AckedSends,
    ClusterEvidence,
    DiskLoss,
    Down,
    InForce,
    MeasuredEnds,
    PartitionEvidence,
    ReadRows,
    Silence,
    UncleanRequest,
    Watermarks,
    column,
)
from analysis.causes.partition import EvidentPartition, Question
from ebbtide.record.node_times import Span
from ebbtide.record.rows import BrokerEvent, PartitionState

VALUE, OFFSET, OTHER = 7, 5, 8
"""The record that is asked about, where it stood, and the value of another record there."""
SENT_S = 2.0


def ns(at_s: float) -> int:
    """Return seconds in nanoseconds."""
    return NEVER if at_s == NEVER else round(at_s * 1_000_000_000)


def state(place: int, at_s: float, leader: int, epoch: int, isr: tuple[int, ...], **fields: Any) -> PartitionState:
    """Return state number `place` of the partition, at ten times that offset of the metadata log."""
    known: dict[str, Any] = {"partition_epoch": place, "replicas": (1, 2, 3), **fields}
    return PartitionState(
        metadata_offset=10 * place,
        at_ns=ns(at_s),
        topic="t",
        partition=0,
        leader=leader,
        leader_epoch=epoch,
        isr=isr,
        **known,
    )


def event(offset: int, at_s: float, broker: int, what: Any, **fields: Any) -> BrokerEvent:
    """Return an event of a broker at an offset of the metadata log."""
    return BrokerEvent(metadata_offset=offset, at_ns=ns(at_s), broker=broker, broker_epoch=offset, event=what, **fields)


def down(broker: int, at_s: float, started_s: float = NEVER) -> Down:
    """Return the end of a broker's process."""
    return Down(broker=broker, ended=Span(first_ns=ns(at_s), last_ns=ns(at_s)), started_ns=ns(started_s))


def disk(broker: int, at_s: float, before: int | None = None, after: int = 0) -> DiskLoss:
    """Return a disk loss; `before` None: nobody measured it."""
    ends = None if before is None else MeasuredEnds(before, after)
    return DiskLoss(broker=broker, within=Span(first_ns=ns(at_s), last_ns=ns(at_s)), ends=ends)


def cut(one: int, other: int, from_s: float = 0, until_s: float = NEVER) -> Silence:
    """Return a cut of the link between two brokers."""
    return Silence(from_ns=ns(from_s), until_ns=ns(until_s), links=frozenset({(min(one, other), max(one, other))}))


def rules(offset: int = 0, at_s: float = 0, **known: Any) -> InForce:
    """Return rules that hold from an offset of the metadata log and its time on."""
    return InForce(metadata_offset=offset, at_ns=ns(at_s), **known)


def elect(asked_s: float, answered_s: float = NEVER, **fields: Any) -> UncleanRequest:
    """Return an operator's request."""
    return UncleanRequest(asked_ns=ns(asked_s), answered_ns=ns(answered_s), **fields)


def rows(*found: tuple[int, int, int], at_s: float = NEVER) -> ReadRows:
    """Return rows of a value, an offset and a leader epoch each."""
    value, offset, epoch = (column([row[place] for row in found]) for place in range(3))
    return ReadRows(value=value, offset=offset, epoch=epoch, at_ns=column([ns(at_s)] * len(found)))


def sends(*found: tuple[int, int, int, float, float]) -> AckedSends:
    """Return acked records: each with its value, its offset, its acks, when it was sent and when the ack came."""
    value, offset, acks = (column([row[place] for row in found]) for place in range(3))
    sent, done = (column([ns(row[place]) for row in found]) for place in (3, 4))
    return AckedSends(value=value, offset=offset, acks=acks, sent_ns=sent, done_ns=done)


def watermarks(*found: tuple[int, int, int, float, float]) -> Watermarks:
    """Return HWs: each with its broker, its leader epoch, itself, when it was asked for and when it came."""
    broker, epoch, hw = (column([row[place] for row in found]) for place in range(3))
    asked, came = (column([ns(row[place]) for row in found]) for place in (3, 4))
    return Watermarks(broker=broker, epoch=epoch, high_watermark=hw, asked_ns=asked, at_ns=came)


def partition(*states: PartitionState, **fields: Any) -> EvidentPartition:
    """Return the partition; `fields` are those of its evidence or of the cluster's."""
    of_cluster = {name: fields.pop(name) for name in ClusterEvidence.__struct_fields__ if name in fields}
    cluster = ClusterEvidence(**of_cluster)
    return EvidentPartition(PartitionEvidence(topic="t", partition=0, cluster=cluster, states=states, **fields))


def question(done_s: float = SENT_S + 0.1, *, read_s: float = NEVER, **fields: Any) -> Question:
    """Return the question about the record; it was acked with acks=all under the first election, if nothing else."""
    asked: dict[str, Any] = {"offset": OFFSET, "value": VALUE, "writers": (0,), "acks_all": True, **fields}
    asked = {"sent_ns": ns(SENT_S), "committed": asked["acks_all"] or read_s < NEVER, **asked}
    return Question(done_ns=ns(done_s), read_ns=ns(read_s), **asked)


def ask(found: EvidentPartition, **fields: Any) -> CauseAnswer:
    """Return the answer about the record."""
    return answer(found, question(**fields))
