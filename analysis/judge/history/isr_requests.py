"""Reads from wire.jsonl what AlterPartition requests asked for that a step stopped or copied, and what came back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from analysis.record.record import Record
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.files import WIRE_FILE
from ebbtide.untrusted.files import UnreadableFile
from ebbtide.untrusted.values import decode_json

_SENT = ("forwarded", "duplicated")
"""Events after which a request was on its way; until then it was held."""
_CAME_BACK = ("answered", "discarded")


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    broker: int
    broker_epoch: int
    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int


class _Answered(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    error: int
    partition_epoch: int


class _ProxyEvent(msgspec.Struct, frozen=True, kw_only=True):
    node: int
    event: str
    at_ns: int
    rule: int
    connection: int | None = None
    correlation: int | None = None
    asked_isrs: tuple[_Asked, ...] = ()
    answered_isrs: tuple[_Answered, ...] = ()


class IsrRequest(NamedTuple):
    """A request for a new ISR of a partition that was answered.

    - `sent_ns`: when it went on at the earliest.
    - `error`: Kafka's code in the answer, 0: none.
    - `copied_epoch`: the partition epoch of the answer to the same request, which had arrived before; None: it is no
      copy, or the first one was refused.
    """

    at: TopicPartition
    asked: _Asked
    sent_ns: int
    error: int
    copied_epoch: int | None


def isr_requests(record: Record) -> list[IsrRequest]:
    """Return the requests whose answers were read; empty if nobody recorded any."""
    try:
        lines = record.folder.bytes(WIRE_FILE).splitlines() if record.folder.has(WIRE_FILE) else []
        events = [decode_json(line, _ProxyEvent) for line in lines if line.strip()]
    except (UnreadableFile, msgspec.DecodeError):
        return []
    return [*_answered(record, events)]


def _answered(record: Record, events: list[_ProxyEvent]) -> Iterator[IsrRequest]:
    asked: dict[object, tuple[_Asked, ...]] = {}
    sent_ns: dict[object, int] = {}
    first: dict[object, dict[tuple[str, int], int]] = {}
    for event in events:
        frame = (event.node, event.rule, event.connection, event.correlation)
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
            yield IsrRequest(TopicPartition(name, answer.partition), mine[0], sent_ns[frame], answer.error, copied)
            if answer.error == 0:
                first[frame][place] = answer.partition_epoch
