"""Validates administrative steps: replicas, topics and expected errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from ebbtide.errors import UsageError
from ebbtide.scenario.client_libraries import DEFAULT_LIBRARY
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS
from ebbtide.scenario.parts import Parts
from ebbtide.scenario.references import EarlierNames, limit
from ebbtide.scenario.roles import Role, overlap
from ebbtide.suggestions import bracketed_suggestion

_PARTITIONS_MAX = 100
_NO_REPLICAS = ("controller", "controllers", "clients")
_PUT_FIRST = ("longest-log", "last-known-elr")
"""Roles that an author puts before all replicas, to prefer them: each broker counts where it comes first."""


def validate_replicas(replicas: Sequence[Role | None], where: str, brokers: int) -> Iterator[UsageError]:
    """Report replicas that are not brokers, that repeat, or that are too many."""
    known = [role for role in replicas if role is not None]
    for role in known:
        if role.kind in _NO_REPLICAS:
            yield UsageError("no replica can be there", where=where, got=repr(role), allowed="roles of brokers")
    for one, other in combinations(known, 2):
        if overlap(one, other) and one.kind not in _PUT_FIRST:
            got = f"{one!r} and {other!r}"
            yield UsageError("a broker holds a replica once", where=where, got=got, allowed="each broker once")
    if len(replicas) > brokers:
        got, allowed = str(len(replicas)), f"up to {brokers} (cluster.brokers)"
        yield UsageError("more replicas than brokers", where=where, got=got, allowed=allowed)


def validate_late(where: str, *, late: bool | None, direction: str | None) -> Iterator[UsageError]:
    """Answers that would outlive the connection of whoever waits for them."""
    if late and direction == "response":
        allowed = "direction = 'request', or no late"
        yield UsageError("nobody would get a late answer", where=f"{where}.late", got="true", allowed=allowed)


def validate_error_name(name: str, where: str) -> Iterator[UsageError]:
    """An error that Kafka does not have."""
    # Imported here: few scenarios expect an error.
    from kafka import errors

    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    names = sorted({str(vars(one)["message"]) for one in kinds if _is_answer(one, errors.BrokerResponseError)})
    if name not in names:
        allowed = "an error of Kafka's protocol, e.g. ELECTION_NOT_NEEDED" + bracketed_suggestion(name, names)
        yield UsageError("unknown error", where=where, got=repr(name), allowed=allowed)


def validate_added_partitions(
    parts: Parts, where: str, names: EarlierNames, *, topic: str, count: int
) -> Iterator[UsageError]:
    """Report a topic that has so many partitions already, and producers that would not write to new ones."""
    before = names.partitions_of(parts, topic)
    if topic in INTERNAL_TOPICS:
        yield UsageError(
            "Kafka's own topic", where=f"{where}.topic", got=repr(topic), allowed="a topic of the scenario"
        )
    elif before:
        when = "after an earlier step" if topic in names.partition_counts else "at first"
        yield from limit(f"{where}.count", count, before + 1, _PARTITIONS_MAX, why=f"{topic} has {before} {when}")
    for one in parts.producers or ():
        if one is not None and one.get("topic") == topic and one.get("client") not in (None, DEFAULT_LIBRARY):
            yield UsageError(
                "a producer that never writes to added partitions",
                where=f"{where}.topic",
                got=f"{topic}, to which producer {one.get('id')} writes with {one.get('client')}",
                allowed=f"producers with client = {DEFAULT_LIBRARY!r}, or none",
            )


def _is_answer(kind: type, base: type) -> bool:
    """Whether it stands for an error code of the protocol."""
    return issubclass(kind, base) and (vars(kind).get("errno") or -1) > 0
