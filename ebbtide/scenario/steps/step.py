"""What every kind of step builds on: its struct, what is true of its kind, and its proof.

Each kind declares its own proof beside its parameters. A fault writes its proof into steps.jsonl, and whoever reads a
record gets it as one of these structs. Records of other releases are read, too: an unknown key is ignored, and a key
that is missing or of another type is None, with the reason in `unread`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, cast

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.triggers import Trigger, tag_of
from ebbtide.scenario.words import Role

Family = Literal["process", "client", "disk", "clock", "network", "admin", "recovery", "wire", "waiting"]
Healer = Literal["start", "resume", "mend-disk", "reset-clock", "heal", "release"]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of step: its effect on a node, and what that means to Ebbtide. Each table on kinds derives from it."""

    family: Family
    does: str
    """One line for docs/faults.md and `ebbtide cluster fault --help`; Markdown."""
    proof: str
    """The evidence of the effect; without it the run is inconclusive. Markdown."""

    note: str | None = None
    """What the author of a scenario must also know; for docs/scenario-steps.md, Markdown."""
    unset: Mapping[str, str] = {}
    """What it means to leave out each of its optional keys, for docs/scenario-steps.md."""
    first: str = "target"
    """The key that stands first where a step is written as a call, as in `kill("leader(t-0)")`."""
    requires: str = "-"
    """The parts of the host that it needs besides a run's own, for docs/faults.md."""
    not_where: str = "-"
    """Where it does not work."""
    undone: str | None = None
    """How its traces on the host are undone, also after a killed harness; None: it leaves none."""

    either: tuple[str, str] | None = None
    """Two of its keys of which a step has exactly one."""
    only_brokers: str | None = None
    """The error for a target that is not a broker; None if it may be a controller."""
    nothing_to_end: tuple[str, str] | None = None
    """Of a healer that needs no target: what to say when there is nothing to end, and what is allowed."""

    healed_by: Healer | None = None
    """The kind of step that ends the effect."""
    ends_itself: bool = False
    """The effect ends with the step."""
    needs_process: bool = False
    """The node must run, or be paused."""
    needs_awake: bool = False
    """The node must not be paused."""
    starts: bool = False
    """The node's process runs afterwards, whatever ended it."""
    pauses: bool = False
    """The node's process stands still until something thaws or ends it."""
    may_leave_down: bool = False
    """The node may be down afterwards, and need not be."""
    clean: bool = False
    """It ends the process by a controlled shutdown."""
    loses: Literal["unflushed", "all"] | None = None
    """Which records the node's logs may lack once it is back."""
    volume: Literal["full", "dead", "slow"] | None = None
    """What is wrong with the node's volume, while the node may keep running."""
    changes_directory: bool = False
    """The log directory may be another afterwards, or offline."""
    stops_requests: bool = False
    """Requests are kept at the proxy for a while, so that a trigger can wait for them."""
    withholds: bool = False
    """A request, or its answer, may come late or never."""

    host: tuple[str, ...] = ()
    """Checks of `ebbtide doctor` that it needs, besides what every run needs."""
    counted: tuple[str, str] | None = None
    """The coverage fact that counts the nodes on which it took effect, and what that counts."""

    weight: float = 0.0
    """How often random schedules draw it, against the others; 0: never."""
    at_controllers: bool = False
    """Random schedules may aim the step at the active controller, because the quorum recovers within seconds."""
    lasts_s: float = 1.0
    """For how long a random schedule takes the act itself to last."""
    drawn: Mapping[str, tuple[str, ...]] = {}
    """The durations that a random schedule draws for its keys."""

    @property
    def takes_down(self) -> bool:
        """Whether it ends the node's process."""
        return self.healed_by == "start"

    @property
    def starts_again(self) -> bool:
        """Whether it ends a process and starts it."""
        return self.family == "process" and self.ends_itself

    @property
    def ended_by(self) -> str:
        """Return in words what ends the effect of the kind.

        It is a kind of step, `itself`, or `-` if nothing needs to end.
        """
        return self.healed_by or ("itself" if self.ends_itself else "-")


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


class StepSpec:
    """One step of the schedule: a struct of its kind.

    `ebbtide.scenario.plain_values` reads and writes all kinds.

    - `deadline_s` bounds the wait for the trigger. In a rolling step it also bounds the wait for the whole ISR after
      each broker, and in an administrative step the wait for the answer and its record.
    - `name` lets a later role, `step(NAME)`, refer to the nodes that this step acted on.
    - `optional`: the schedule does not depend on this step. If the step cannot fire or takes no effect, the run
      continues and can still end as predicted.
    """

    __slots__ = ()

    kind: ClassVar[Kind]
    """What is true of every step of this kind."""
    Proof: ClassVar[type[StepProof]] = StepProof
    """What its proof says in a record."""
    shown: ClassVar[Mapping[str, str]] = {
        "trigger": "a trigger, e.g. 'acked = 1000'",
        "deadline_s": "how long to wait at most, in seconds",
        "name": "a name, for step(NAME) in later roles",
        "optional": "the run stays valid if the step cannot fire or has no effect",
    }
    """What stands for the keys that this struct declares, if the words of their types do not say it."""

    name: str | None
    trigger: Trigger | None
    deadline_s: float
    optional: bool | None

    @property
    def step(self) -> str:
        """The kind's word."""
        return tag_of(type(self))

    def mistakes(self, clients: Sequence[str], earlier: Iterable[StepSpec], where: str) -> Iterator[UsageError]:
        """Yield what only this kind's own module knows to be wrong; nothing by default.

        `clients` are those of the scenario, such as `producer(1)`.
        """
        yield from ()

    def replace(self, **changes: object) -> Self:
        """Return the same step with these fields changed."""
        return cast(Self, msgspec.structs.replace(cast(Any, self), **changes))


class BaseStep(StepSpec, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="step"):
    """The fields of every kind."""

    name: str | None = None
    trigger: Trigger | None = None
    deadline_s: float = 30.0
    optional: bool | None = None


class TargetStep(BaseStep, frozen=True, kw_only=True):
    """A step that acts on the nodes of a role."""

    target: Role


class MaybeTargetStep(BaseStep, frozen=True, kw_only=True):
    """A step that acts on the nodes of a role, or on all nodes without a role."""

    target: Role | None = None


def target_of(step: StepSpec) -> Role | None:
    """Return the role that the step acts on; None if it has no role."""
    return cast(Role | None, getattr(step, "target", None))


class WaitStep(BaseStep, frozen=True, kw_only=True, tag="wait"):
    """Waits for its trigger."""

    kind = Kind(
        family="waiting",
        does="waits for its trigger",
        proof="the trigger fired",
        weight=6.0,
        lasts_s=0.0,
    )
    trigger: Trigger


WaitingStep = WaitStep
