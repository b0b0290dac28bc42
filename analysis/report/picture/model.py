"""The picture of a run as plain values: lanes, spans, marks and series on one time axis.

Nothing here says how it looks: a page, a comparison of runs and a terminal draw from the same
values. Every time is in nanoseconds since the epoch, UTC; an end of None means that the run ended
first. Every text is finished and not escaped.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from analysis.record.elections import Road
from analysis.sentences.elections import Blame
from ebbtide.record.verdict import Cause

BIN_NS = 100_000_000
"""Records are counted per 100 ms."""

Details = tuple[tuple[str, str], ...]
"""What is known of a span or a mark, as names and values, in the order of importance."""

NodeState = Literal[
    "down",
    "paused",
    "cut-off",
    "cut",
    "slow-link",
    "requests-held",
    "disk-full",
    "disk-dead",
    "disk-slow",
    "fenced",
    "shutting-down",
    "unregistered",
]
"""What is wrong with a node, or what the controller says of a broker.

- `cut-off`: cut from every other controller; of a controller alone: cut from every broker. `cut`: from other nodes.
- `requests-held`: a wire rule holds, delays, drops or duplicates requests.
- `fenced`, `shutting-down`, `unregistered`: by the metadata log.
"""

RoleState = Literal["leader", "recovering", "isr", "elr", "last-known-leader", "replica"]
"""A broker's part in a partition.

`recovering`: it leads after an election from outside ISR and ELR (KIP-704). `replica`: it is
assigned, but in neither ISR nor ELR.
"""


class StateSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A state that lasted from `begin_ns` to `end_ns`; `step` is the index of the step behind it."""

    begin_ns: int
    end_ns: int | None
    state: NodeState | RoleState
    text: str
    details: Details = ()
    step: int | None = None


class EventMark(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at one moment; `kind` names it for drawing and the legend."""

    at_ns: int
    kind: Literal["registered", "registered-unclean"]
    text: str
    details: Details = ()


class NodeLane(msgspec.Struct, frozen=True, kw_only=True):
    """One node over time; a time without a span is normal. `is_combined`: a broker that is also a controller.

    `condition` has what the steps did to the node; its spans may overlap. `registration` has what
    the controller says of a broker, one span at a time.
    """

    node: int
    name: str
    is_broker: bool
    is_combined: bool = False
    condition: tuple[StateSpan, ...] = ()
    registration: tuple[StateSpan, ...] = ()
    marks: tuple[EventMark, ...] = ()


class StepSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One step that fired, in the order of the schedule.

    `index` counts from 0, as in steps.jsonl and in every message. `end_ns` is when the fault was
    healed; it equals `begin_ns` for a step that does not last. `aim` names what the step hit, in a few words,
    or is empty. `is_fault`: the step broke or changed something, so it is neither a wait nor a healer.
    """

    index: int
    kind: str
    name: str
    aim: str
    nodes: tuple[int, ...]
    begin_ns: int
    end_ns: int | None
    is_fault: bool
    is_proven: bool
    text: str
    details: Details = ()


class RecordMark(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the metadata log that changed the partition."""

    at_ns: int
    metadata_offset: int
    text: str
    details: Details = ()


class ElectionMark(msgspec.Struct, frozen=True, kw_only=True):
    """One election that changed the leader.

    `blame`: what it lost, None if it lost nothing.
    """

    at_ns: int
    metadata_offset: int
    leader: int
    leader_epoch: int
    road: Road
    blame: Blame | None
    text: str
    details: Details = ()


class OffsetPoint(msgspec.Struct, frozen=True, array_like=True):
    """An offset that was observed at one moment, e.g. the HW; `broker` answered."""

    at_ns: int
    offset: int
    broker: int
    leader_epoch: int | None = None


class LogEnds(msgspec.Struct, frozen=True, kw_only=True):
    """The moments at which the log end offset of one replica is known; between them it is not."""

    broker: int
    points: tuple[OffsetPoint, ...]


class RecordCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Records per 100 ms (`BIN_NS`) from `begin_ns` on.

    `acked` by brokers, `consumed` by ordinary consumers. `acked_end` is the highest acked offset
    plus one by the end of each 100 ms.
    """

    begin_ns: int
    acked: tuple[int, ...] = ()
    consumed: tuple[int, ...] = ()
    acked_end: tuple[int, ...] = ()


class LostBand(msgspec.Struct, frozen=True, kw_only=True):
    """Records that were lost with one cause: their offsets, and since when they are gone."""

    first_offset: int
    last_offset: int
    count: int
    committed: bool
    cause: Cause
    since_ns: int | None
    text: str


class PartitionPicture(msgspec.Struct, frozen=True, kw_only=True):
    """One partition over time.

    `roles` has the spans of each broker that ever was a replica. `leaderless` has the spans
    without a leader, as (begin, end).
    """

    topic: str
    partition: int
    name: str
    is_blamed: bool
    roles: dict[int, tuple[StateSpan, ...]] = {}
    records: tuple[RecordMark, ...] = ()
    elections: tuple[ElectionMark, ...] = ()
    leaderless: tuple[tuple[int, int | None], ...] = ()
    high_watermarks: tuple[OffsetPoint, ...] = ()
    log_ends: tuple[LogEnds, ...] = ()
    counts: RecordCounts | None = None
    lost: tuple[LostBand, ...] = ()


class RunPicture(msgspec.Struct, frozen=True, kw_only=True):
    """One run: its nodes, its steps and its partitions, between `begin_ns` and `end_ns`.

    `zero_ns` is the start of the run, from which times are told. Partitions with a loss come
    first; `partitions_omitted` more have no picture.
    """

    run_id: str
    scenario: str
    kafka: str
    zero_ns: int
    begin_ns: int
    end_ns: int
    lanes: tuple[NodeLane, ...]
    steps: tuple[StepSpan, ...]
    partitions: tuple[PartitionPicture, ...]
    partitions_omitted: int = 0
