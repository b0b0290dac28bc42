"""KIP-497: the controller refuses a change of an ISR that is based on an older state than the one in force.

A leader says in AlterPartition on which partition epoch and leader epoch its ISR is based, and its own broker epoch.
Where a step stopped or copied the request, its epochs are recorded, and the code of the answer. They are held against
the metadata log: it had a newer epoch before the request went on. Or against the answer to the same request, which had
arrived right before, and had raised the partition epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from analysis.judge.history.evidence import Row
from analysis.judge.history.wire_events import IsrAsked, ProxyEvent, wire_events
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.record.clock_steps import CLOCKS_AGREE_NS
from analysis.record.record import Record
from ebbtide.logs.segments import TopicPartition

_SENT = ("forwarded", "duplicated")
"""Events after which a request was on its way; until then it was held."""
_CAME_BACK = ("answered", "discarded")


class _IsrRequest(NamedTuple):
    """A request for a new ISR of a partition that was answered.

    - `sent_ns`: when it went on at the earliest.
    - `error`: Kafka's code in the answer, 0: none.
    - `copied_epoch`: the partition epoch of the answer to the same request, which had arrived before; None: it is no
      copy, or the first one was refused.
    """

    at: TopicPartition
    asked: IsrAsked
    sent_ns: int
    error: int
    copied_epoch: int | None


def _isr_requests(record: Record) -> list[_IsrRequest]:
    """Return the requests whose answers were read; empty if nobody recorded any."""
    return [*_answered(record, wire_events(record) or ())]


def _answered(record: Record, events: Sequence[ProxyEvent]) -> Iterator[_IsrRequest]:
    asked: dict[object, tuple[IsrAsked, ...]] = {}
    sent_ns: dict[object, int] = {}
    first: dict[object, dict[tuple[str, int], int]] = {}
    for event in events:
        frame = event.frame
        if event.asked_isrs:
            asked[frame], first[frame] = event.asked_isrs, {}
        if event.event in _SENT:
            sent_ns[frame] = event.at_ns
        if event.event not in _CAME_BACK or frame not in sent_ns:
            continue
        for answer in event.answered_isrs:
            place, name = (answer.topic, answer.partition), record.manifest.topic_ids.get(answer.topic)
            mine = [one for one in asked.get(frame, ()) if (one.topic, one.partition) == place]
            if name is None or not mine:
                continue
            copied = first[frame].get(place) if event.event == "discarded" else None
            yield _IsrRequest(TopicPartition(name, answer.partition), mine[0], sent_ns[frame], answer.error, copied)
            if answer.error == 0:
                first[frame][place] = answer.partition_epoch


def _check(judged: Judged) -> Finding:
    record = judged.record
    cases = Cases()
    for request in _isr_requests(record):
        asked = request.asked
        epochs = {
            "partition_epoch": asked.partition_epoch,
            "leader_epoch": asked.leader_epoch,
            "broker_epoch": asked.broker_epoch,
        }
        newer = {name: one for name, one in _in_force(record, request).items() if one > epochs[name]}
        if newer:
            row: Row = {**request.at._asdict(), "broker": asked.broker, **epochs, "sent_ns": request.sent_ns}
            cases.add(row | {"in_force": newer} if request.error == 0 else None)
    return cases.finding(record.why_metadata_may_be_undone)


def _in_force(record: Record, request: _IsrRequest) -> Mapping[str, int]:
    """Return the epochs that were in force for sure when a request arrived."""
    by_ns = request.sent_ns - CLOCKS_AGREE_NS
    states = [one for one in record.timeline.states(*request.at) if one.at_ns < by_ns]
    registered = [
        one.broker_epoch
        for one in record.timeline.brokers
        if one.broker == request.asked.broker and one.event == "registered" and one.at_ns < by_ns
    ]
    partition_epochs = [one.partition_epoch for one in states]
    if request.copied_epoch is not None:
        partition_epochs.append(request.copied_epoch)
    found = {
        "partition_epoch": partition_epochs,
        "leader_epoch": [one.leader_epoch for one in states],
        "broker_epoch": registered,
    }
    return {name: max(epochs) for name, epochs in found.items() if epochs}


RULE = Clause(
    kip="KIP-497",
    check=_check,
    applies=lambda judged: bool(_isr_requests(judged.record)),
    needed="never",
    compares_times=True,
    unknown_when=(
        "a stale request was carried out, and a controller lost its log. Only where a step held, delayed or "
        "duplicated AlterPartition requests"
    ),
    example="""
        Leader 1 asks for a new ISR. Its request arrives twice, and the controller carries out both.
        partitions: leader=1; at=30 isr=1,2
        requests: event=duplicated at=29 epoch=0; event=answered at=29.1 error=0 epoch=1;
          event=discarded at=29.2 error=0 epoch=1
        gives: broker=1 partition_epoch=0
    """,
)
