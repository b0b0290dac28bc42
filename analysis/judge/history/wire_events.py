"""Reads wire.jsonl: what the wire proxies did to requests, as far as the judge looks at it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.record.record import Record
from ebbtide.record.files import WIRE_FILE
from ebbtide.untrusted.files import UnreadableFile
from ebbtide.untrusted.values import decode_json


class DivergingAnswer(msgspec.Struct, frozen=True):
    """A Fetch answer that makes a follower truncate; `topic` is a topic's id, or its name before Fetch version 13."""

    partition: int
    end_offset: int
    fetch_offset: int | None = None
    topic: str = ""


class IsrAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of an AlterPartition request, and the epochs that it is based on."""

    broker: int
    broker_epoch: int
    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int


class IsrAnswered(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of the answer to such a request."""

    topic: str
    partition: int
    error: int
    partition_epoch: int


class ProxyEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of wire.jsonl; `peer` is an address if it is no node."""

    event: str
    at_ns: int
    node: int
    rule: int
    peer: int | str | None = None
    connection: int | None = None
    correlation: int | None = None
    diverging: tuple[DivergingAnswer, ...] = ()
    asked_isrs: tuple[IsrAsked, ...] = ()
    answered_isrs: tuple[IsrAnswered, ...] = ()

    @property
    def frame(self) -> tuple[int, int, int | None, int | None]:
        """What the events of one frame have in common."""
        return self.node, self.rule, self.connection, self.correlation


def wire_events(record: Record) -> Sequence[ProxyEvent] | None:
    """Return the events in their order; None: the file is damaged."""
    try:
        lines = record.folder.bytes(WIRE_FILE).splitlines() if record.folder.has(WIRE_FILE) else []
        return [decode_json(line, ProxyEvent) for line in lines if line.strip()]
    except (UnreadableFile, msgspec.DecodeError):
        return None
