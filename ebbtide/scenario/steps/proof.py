"""The proofs of steps as values: each kind of step declares its own beside its parameters.

A fault writes its proof into steps.jsonl, and whoever reads a record gets it as one of these structs. Records of other
releases are read, too: an unknown key is ignored, and a key that is missing or of another type is None, with the
reason in `unread`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self, TypeVar

import msgspec


@functools.cache
def struct_fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a struct type, in order."""
    return msgspec.structs.fields(kind)


T = TypeVar("T", bound=msgspec.Struct)


class Link(NamedTuple):
    """The packets from one node to another; `CLIENTS` stands for the clients."""

    source: int
    target: int


class Links:
    """The connections that a step cut or limited, each in one direction; in a record `1>2`."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Raise `ValueError` for a text that is no connection."""
        self.pairs = frozenset(map(_link_of, texts))

    @property
    def is_one_way(self) -> bool:
        """Whether no connection is among them in both directions, and there is one at all."""
        return bool(self.pairs) and not any(Link(target, source) in self.pairs for source, target in self.pairs)

    @property
    def is_both_ways(self) -> bool:
        """Whether each connection is among them in both directions."""
        return all(Link(target, source) in self.pairs for source, target in self.pairs)


def _link_of(text: str) -> Link:
    source, _, target = text.partition(">")
    if not source.isdigit() or not target.isdigit():
        raise ValueError(f"{text!r} is not two nodes such as 1>2")
    return Link(int(source), int(target))


class MeasuredLog(msgspec.Struct, frozen=True, kw_only=True):
    """What a step did to one partition's log: its size and its end (LEO) before and after."""

    bytes_before: int | None = None
    bytes_after: int | None = None
    lost_bytes: int | None = None
    leo_before: int | None = None
    leo_after: int | None = None


class TornPage(msgspec.Struct, frozen=True, kw_only=True):
    """The half-written page at a log's end: `arrived_bytes` of what was lost at `position`, then zeros.

    `damage` is what a reader finds there; None: nothing, or there is more behind it.
    """

    segment: str
    position: int
    arrived_bytes: int
    zero_bytes: int
    damage: str | None = None


class StepProof(msgspec.Struct, frozen=True, kw_only=True):
    """What the proof of any step says.

    - `nodes`: the proof of each node, if the step acted on several.
    - `lost_bytes`, `logs`: what the logs lost, in all and each by its `topic-partition`.
    - `pid`: that of the process which the step was about.
    - `unread`: why a key could not be read, by key.
    """

    probe: str | None = None
    pid: int | None = None
    nodes: dict[int, dict[str, Any]] | None = None
    lost_bytes: int | None = None
    logs: dict[str, MeasuredLog] | None = None
    unread: dict[str, str] = {}

    def of(self, node: int) -> Self:
        """Return the node's own part of the proof, or the proof itself if nodes have none."""
        own = (self.nodes or {}).get(node)
        return self if own is None else read_leniently(type(self), own)


class LinkProof(StepProof, frozen=True, kw_only=True):
    """The proof of a cut or a limit: `cuts` let no packet pass, `transfers` were measured."""

    cuts: Links | None = None
    transfers: Links | None = None

    @property
    def links(self) -> Links | None:
        """Return what was cut or limited."""
        return self.cuts or self.transfers


class ProvingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of the metadata log that proves a request; which keys it has depends on the request."""

    metadata_offset: int | None = None
    topic_id: str | None = None
    added: int | None = None


class LogStartMove(msgspec.Struct, frozen=True, kw_only=True):
    """A leader's log start before and after a request, as the leader itself said under `leader_epoch`.

    `asked_ns`, `answered_ns`: when the request was sent, and when the log start after it was known.
    """

    old: int
    new: int
    leader_epoch: int
    asked_ns: int
    answered_ns: int


class RequestProof(StepProof, frozen=True, kw_only=True):
    """The proof of a request to Kafka: the `answer` (an error's name, or NONE), and the `record` that followed it."""

    answer: str | None = None
    record: ProvingRecord | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the request was answered with an error."""
        return self.answer not in (None, "NONE")


def read_leniently(kind: type[T], values: Mapping[str, object]) -> T:
    """Return a struct whose fields are all optional, from plain values.

    A key of another type keeps its default; if the struct has a field `unread`, it says why.
    """
    found: dict[str, object] = {}
    unread: dict[str, str] = {}
    for field in struct_fields(kind):
        key = field.encode_name
        if values.get(key) is None or field.name == "unread":
            continue
        try:
            found[field.name] = msgspec.convert(values[key], field.type, str_keys=True, dec_hook=_read_links)
        except msgspec.ValidationError as error:
            unread[key] = str(error)
    if unread and any(field.name == "unread" for field in struct_fields(kind)):
        found["unread"] = unread
    return kind(**found)


def _read_links(kind: type, value: Any) -> Any:
    if kind is Links and isinstance(value, list | dict) and all(isinstance(one, str) for one in value):
        return Links(value)
    raise ValueError(f"{value!r} is not {'a list of pairs such as 1>2' if kind is Links else 'of a known type'}")
