"""Parses durations, rates, partitions and roles once, when a scenario file is read.

Roles name the nodes of a step without ids; each resolves as the step fires.

`leader(t-0)`, `followers(t-0)` (the replicas that do not lead, alive or not), `isr(t-0)`, `elr(t-0)`,
`replicas(t-0)`, `last-known-leader(t-0)`, `last-known-elr(t-0)` (as KIP-966's text has it, on every
release), `longest-log(t-0)` (the replica whose log ends last on its volume, alive or not),
`coordinator(GROUP)` (the leader of the group's partition of `__consumer_offsets`),
`controller` (the active one), `controllers`, `brokers`, `broker(2)`, `clients`, and `step(NAME)`: the
nodes that an earlier step of this name acted on.
"""

from __future__ import annotations

import re
from typing import ClassVar

from ebbtide.errors import UsageError
from ebbtide.logs.segments import TopicPartition
from ebbtide.scenario.internal_topics import OFFSETS_PARTITION, OFFSETS_TOPIC
from ebbtide.suggestions import bracketed_suggestion

RATE_BYTES_S_MIN = 1_000
RATE_BYTES_S_MAX = 12_500_000

_RATE = re.compile(r"(\d+(?:\.\d+)?)([km])bit")
_UNITS = {"ms": "ms", "mil": "ms", "s": "s", "m": "m"}
"""How people begin the word of a unit."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_CLOCK_OFFSET = re.compile(r"([+-])(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def whole_number(text: str) -> int | None:
    """Return the number of a text of up to nine digits, else None.

    A superscript two is not a digit.
    """
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


class ParsedText:
    """A value that keeps the text which it was read from, and is written back as that."""

    __slots__ = ("_text",)

    shown: ClassVar[str]
    """What stands for such a value in messages and helps."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return repr(self._text)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and str(other) == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class Duration(ParsedText):
    """A length of time such as `500ms`, `2s`, `1.5m`."""

    __slots__ = ("seconds",)
    shown = "how long, e.g. '500ms'"

    def __init__(self, text: str) -> None:
        """Raises `UsageError` for any other text."""
        super().__init__(text)
        match = _DURATION.fullmatch(text.strip())
        if match is None:
            allowed = "a number with its unit: 500ms, 2s, 1m" + _meant_duration(text)
            raise UsageError("not a duration", got=repr(text), allowed=allowed)
        self.seconds = float(match[1]) * _SECONDS[match[2]]


def _meant_duration(text: str) -> str:
    """Return the duration that was probably meant, in brackets; a number without a unit means seconds."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    if found is None:
        return ""
    begun = (unit for begin, unit in _UNITS.items() if found[2].startswith(begin))
    unit = next(begun, None) if found[2] else "s"
    return "" if unit is None else f" (did you mean '{found[1]}{unit}'?)"


CLOCK_OFFSET_S_MIN = 1.0
CLOCK_OFFSET_S_MAX = 24 * 3600.0


class ClockOffset(ParsedText):
    """How far a node's clock is set off, such as `+1h`, `-3s`."""

    __slots__ = ("milliseconds",)
    shown = "1s to 24h, with its sign, e.g. '+1h' or '-3s'"

    def __init__(self, text: str) -> None:
        """Raises `UsageError` for any other text."""
        super().__init__(text)
        match = _CLOCK_OFFSET.fullmatch(text.strip())
        seconds = 0.0 if match is None else float(match[2]) * _SECONDS[match[3]]
        if match is None or not CLOCK_OFFSET_S_MIN <= seconds <= CLOCK_OFFSET_S_MAX:
            raise UsageError("not an offset of a clock", got=repr(text), allowed=self.shown)
        self.milliseconds = round(seconds * 1000) * (-1 if match[1] == "-" else 1)


class Rate(ParsedText):
    """A rate of data such as `256kbit`, `10mbit`."""

    __slots__ = ("bytes_s",)
    shown = "8kbit to 100mbit, e.g. '256kbit'"

    def __init__(self, text: str) -> None:
        """Raises `UsageError` for any other text."""
        super().__init__(text)
        match = _RATE.fullmatch(text.strip())
        self.bytes_s = 0 if match is None else int(float(match[1]) * {"k": 1_000, "m": 1_000_000}[match[2]] / 8)
        if not RATE_BYTES_S_MIN <= self.bytes_s <= RATE_BYTES_S_MAX:
            raise UsageError("not a rate", got=repr(text), allowed="8kbit to 100mbit, e.g. 256kbit")


class PartitionName(ParsedText):
    """A partition such as `t-0`."""

    __slots__ = ("at",)
    shown = "a partition, e.g. 't-0'"

    def __init__(self, text: str) -> None:
        """Raises `UsageError` for any other text."""
        super().__init__(text)
        try:
            self.at = TopicPartition.parse(text)
        except ValueError:
            allowed = "a topic and a number, e.g. 't-0'"
            raise UsageError("not a partition", got=repr(text), allowed=allowed) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionName) and other.at == self.at

    def __hash__(self) -> int:
        return hash(self.at)


PARTITION_ROLES = (
    "leader",
    "followers",
    "isr",
    "elr",
    "replicas",
    "last-known-leader",
    "last-known-elr",
    "longest-log",
)
PLAIN_ROLES = ("controller", "controllers", "brokers", "clients")
ROLE_FORMS = (
    *(f"{kind}(TOPIC-PARTITION)" for kind in PARTITION_ROLES),
    "coordinator(GROUP)",
    "broker(ID)",
    "controller(ID)",
    "step(NAME)",
    *PLAIN_ROLES,
)

FIRST_CONTROLLER = 100
"""Controllers are 100, 101, ... and brokers 1, 2, ...: the id shows the role."""

CLIENTS = 0
"""The node id that stands for the clients, in their network namespace, where nodes are counted."""

_NODES_BY_ID = ("broker", "controller")
"""Roles of the node whose id stands in brackets; `controller` without brackets is the active one."""
_NO_BROKERS = ("controller", "controllers", "clients", "step")

# Not isr with elr: a replica of the ISR is in no ELR (KIP-966), so the two can be cut from each other.
_SHARE_A_REPLICA = (
    {"isr", "leader"},
    {"isr", "followers"},
    {"isr", "replicas"},
    {"elr", "followers"},
    {"replicas", "leader"},
    {"replicas", "followers"},
    {"replicas", "elr"},
    {"replicas", "last-known-leader"},
    {"replicas", "last-known-elr"},
    {"replicas", "longest-log"},
)

_FORM = re.compile(r"([a-z-]+)(?:\(([^()]+)\))?")


class Role(ParsedText):
    """A parsed role; `argument` is the text in its brackets.

    The text is a partition, group, node id or step name. `partition`, `broker` and `controller` are the parsed
    argument; None if the role does not name a partition, broker or controller. A coordinator's partition is that
    of its group in `__consumer_offsets`.
    """

    __slots__ = ("argument", "broker", "controller", "kind", "partition")
    shown = "a role, e.g. 'leader(t-0)'"

    def __init__(self, text: str) -> None:
        """Raises `UsageError` that lists the allowed forms."""
        super().__init__(text)
        match = _FORM.fullmatch(text.strip())
        kind, argument = (match[1], match[2]) if match else (text, None)
        wants_argument = (*PARTITION_ROLES, "coordinator", *_NODES_BY_ID, "step")
        known = kind in PLAIN_ROLES if argument is None else kind in wants_argument
        self.kind: str = kind
        self.argument: str | None = argument
        number = whole_number(str(argument)) if kind in _NODES_BY_ID and argument is not None else None
        self.broker = number if kind == "broker" else None
        self.controller = number if kind == "controller" else None
        if kind in ("producer", "consumer") and argument is not None:
            allowed = f"kill-client, stop-client and start-client, with client = {text!r}"
            raise UsageError("a client is not a node, and has steps of its own", got=repr(text), allowed=allowed)
        if not known or (kind in _NODES_BY_ID and argument is not None and number is None):
            forms = {form.split("(")[0]: form for form in ROLE_FORMS}
            near = bracketed_suggestion(kind, forms, shown=forms)
            raise UsageError("unknown role", got=repr(text), allowed=", ".join(ROLE_FORMS) + near)
        self.partition = PartitionName(str(argument)) if kind in PARTITION_ROLES else None
        if kind == "coordinator":
            self.partition = PartitionName(f"{OFFSETS_TOPIC}-{OFFSETS_PARTITION}")

    @classmethod
    def of_broker(cls, broker: int) -> Role:
        """Return the role that always means this broker."""
        return cls(f"broker({broker})")

    @classmethod
    def of_step(cls, name: str) -> Role:
        """Return the role for the nodes that an earlier step acted on."""
        return cls(f"step({name})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Role) and (other.kind, other.argument) == (self.kind, self.argument)

    def __hash__(self) -> int:
        return hash((self.kind, self.argument))


class RoleOrNone(ParsedText):
    """A role, or `none` for no node; `role` is then None."""

    __slots__ = ("role",)
    shown = "a role of one broker, or 'none'"

    def __init__(self, text: str) -> None:
        """Raises `UsageError` for any other text."""
        super().__init__(text)
        self.role = None if text == "none" else Role(text)


class ConfigResource(ParsedText):
    """The resource whose config is set: a topic, a broker or the cluster.

    It is that of `topic` or of the broker `role`; both are None for the cluster.
    """

    __slots__ = ("role", "topic")
    shown = "'topic:NAME', 'broker:ROLE' or 'cluster'"

    def __init__(self, text: str) -> None:
        """Raise `UsageError` unless it is `topic:NAME`, `broker:ROLE` or `cluster`."""
        super().__init__(text)
        kind, _, rest = text.partition(":")
        if text != "cluster" and (kind not in ("topic", "broker") or not rest):
            raise UsageError(
                "not a config resource", got=repr(text), allowed="'topic:NAME', 'broker:ROLE' or 'cluster'"
            )
        self.topic = rest if kind == "topic" else None
        self.role = Role(rest) if kind == "broker" else None


def overlap(one: Role, other: Role) -> bool:
    """Whether the words alone say that the two hold a common node.

    False where only the run can tell, as for `leader(t-0)` and `leader(t-1)`.
    """
    one, other = _as_leader(one), _as_leader(other)
    if one == other:
        return True
    kinds = {one.kind, other.kind}
    if "brokers" in kinds:
        return kinds.isdisjoint(_NO_BROKERS)
    return kinds == {"controller", "controllers"} or (one.argument == other.argument and kinds in _SHARE_A_REPLICA)


def _as_leader(role: Role) -> Role:
    """Return the leader that a coordinator is; any other role as it is."""
    return Role(f"leader({role.partition})") if role.kind == "coordinator" else role
