"""Roles: who a step acts on, said without node ids, and resolved when the step fires.

`leader(t-0)`, `followers(t-0)` (the replicas that do not lead, alive or not), `isr(t-0)`, `elr(t-0)`,
`replicas(t-0)`, `last-known-leader(t-0)`, `controller` (the active one), `controllers`, `brokers`,
`broker(2)`, `clients`, and `step(NAME)`: whom an earlier step of that name acted on.
"""

from __future__ import annotations

import re

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.check import suggestion
from ebbtide.scenario.words import whole_number

PARTITION_ROLES = ("leader", "followers", "isr", "elr", "replicas", "last-known-leader")
PLAIN_ROLES = ("controller", "controllers", "brokers", "clients")
ROLE_FORMS = (
    *(f"{kind}(TOPIC-PARTITION)" for kind in PARTITION_ROLES),
    "broker(ID)",
    "step(NAME)",
    *PLAIN_ROLES,
)

CLIENTS = 0
"""The node id that stands for the clients, in their network namespace, where nodes are counted."""

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
)

_FORM = re.compile(r"([a-z-]+)(?:\(([^()]+)\))?")


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed role; `argument` is the partition, broker id or step name in its brackets."""

    kind: str
    argument: str | None = None

    def __str__(self) -> str:
        return self.kind if self.argument is None else f"{self.kind}({self.argument})"


def parse_role(text: str) -> Role:
    """Parse one role; raises `UsageError` that lists the allowed forms."""
    match = _FORM.fullmatch(text.strip())
    kind, argument = (match[1], match[2]) if match else (text, None)
    wants_argument = (*PARTITION_ROLES, "broker", "step")
    known = kind in PLAIN_ROLES if argument is None else kind in wants_argument
    if not known or (kind == "broker" and whole_number(str(argument)) is None):
        names = [form.split("(")[0] for form in ROLE_FORMS]
        raise UsageError("unknown role", got=repr(text), allowed=", ".join(ROLE_FORMS) + suggestion(kind, names))
    return Role(kind=kind, argument=argument)


def overlap(one: Role, other: Role) -> bool:
    """Whether the words alone say that the two hold a common node.

    False where only the run can tell, as for `leader(t-0)` and `leader(t-1)`.
    """
    if one == other:
        return True
    kinds = {one.kind, other.kind}
    if "brokers" in kinds:
        return kinds.isdisjoint(_NO_BROKERS)
    return kinds == {"controller", "controllers"} or (one.argument == other.argument and kinds in _SHARE_A_REPLICA)
