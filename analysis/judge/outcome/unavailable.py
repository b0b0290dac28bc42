"""Says how long each partition was without service: without a leader, an ack, or any service."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis.evidence.remaking import TIMELINE
from analysis.judge.history.service_cells import CELL_NS, FoldedCells, ServiceCells
from analysis.judge.history.spells import Spell, ack_spells, leaderless_spells, unserved_spells
from analysis.judge.history.steps import client_downs
from analysis.record.record import Record
from analysis.record.timeline import TopicPartition
from ebbtide.record.manifest import ACKS, Manifest
from ebbtide.record.outages import NOBODY_ASKED, NOBODY_WAITED
from ebbtide.record.steps import StepEntry
from ebbtide.record.verdict import Outage, Unavailability
from ebbtide.scenario.words import CLIENTS

_OF_LEADERS = frozenset({*TIMELINE, "manifest", "evidence"})
_OF_ACKS = frozenset({"sends", "manifest"})
_OF_SERVICES = frozenset({"sends", "polls", "watermarks", "manifest", "steps"})
_ASKED = ("polls", "watermarks")
"""The tables that show, besides sends, what clients asked for."""


def time_without_service(record: Record) -> list[Unavailability]:
    """Return the time without service of every partition of the run's topics.

    Raises `UsageError` when a file is damaged.
    """
    manifest, steps = record.manifest, record.split_steps
    no_leaders = record.why_not_whole(_OF_LEADERS)
    no_sends, missing = _why_sends_unknown(record, manifest), next((one for one in _ASKED if not record.has(one)), None)
    no_acks = record.why_not_whole(_OF_ACKS) or no_sends
    no_services = record.why_not_whole(_OF_SERVICES) or (f"{missing} is missing" if missing is not None else no_sends)
    folded = record.seen(ServiceCells) if no_acks is None or no_services is None else FoldedCells({})
    spells = ack_spells(folded) if no_acks is None else {}
    unserved = unserved_spells(folded) if no_services is None else {}
    found = []
    for topic, partition in _partitions(record, manifest, [*spells, *unserved]):
        leaderless = no_leaders or leaderless_spells(record.timeline, topic, partition)
        serviceless = no_services or _with_clients_on(unserved.get((topic, partition), NOBODY_ASKED), steps)
        ackless = no_acks or _with_producers_up(spells.get((topic, partition), []), steps) or _why_no_acks(manifest)
        found.append(
            Unavailability(
                topic=topic,
                partition=partition,
                no_leader=None if isinstance(leaderless, str) else _outage(leaderless, 0),
                no_ack=None if isinstance(ackless, str) else _outage(ackless, CELL_NS),
                no_service=None if isinstance(serviceless, str) else _outage(serviceless, 0),
                unknown={
                    name: why
                    for name, why in (("no_leader", leaderless), ("no_ack", ackless), ("no_service", serviceless))
                    if isinstance(why, str)
                },
            )
        )
    return found


def _partitions(record: Record, manifest: Manifest, sent: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions of the topics that the run made; a bare record names them by its tables."""
    named = {(topic, at) for topic, setup in manifest.topics.items() for at in range(setup.partitions)}
    added = {one for one in record.timeline.partitions if one[0] in manifest.topics}
    return sorted(named | added or {*record.timeline.partitions, *sent})


def _outage(spells: Sequence[Spell], least_ns: int) -> Outage:
    """Return what a verdict says of some spells; spells of at most `least_ns` are not told apart."""
    longest = max(spells, key=lambda one: one.length_ns, default=None)
    told = [one for one in spells if one.length_ns > least_ns]
    return Outage(
        longest_s=_seconds(max(longest.length_ns if longest else 0, least_ns)),
        total_s=_seconds(sum(one.length_ns for one in told)),
        spells=len(told),
        from_ns=longest.from_ns if longest in told and longest is not None else None,
        to_ns=longest.to_ns if longest in told and longest is not None else None,
        at_least=any(one.is_open for one in spells),
    )


def _seconds(length_ns: int) -> float:
    return round(length_ns / 1e9, 3)


def _why_sends_unknown(record: Record, manifest: Manifest) -> str | None:
    if not record.has("sends"):
        return "sends is missing"
    if manifest.torn_journal_bytes:
        return "the clients' journals end in the middle of an entry, so sends may lack rows"
    return None


def _with_clients_on(spells: list[Spell] | str, steps: Sequence[StepEntry] | None) -> list[Spell] | str:
    """Return the spells, or why they say nothing of the brokers: a step kept the clients from asking them."""
    if isinstance(spells, str) or not spells:
        return spells
    if steps is None:
        return "steps.jsonl is missing: a step may have cut the clients off"
    for step in steps:
        if CLIENTS not in step.nodes or step.fired_ns is None:
            continue
        if any(one.to_ns > step.fired_ns and one.from_ns < (step.healed_ns or one.to_ns) for one in spells):
            return f"step {step.index} ({step.step}) hit the clients then"
    return _with_producers_up(spells, steps)


def _with_producers_up(spells: list[Spell] | str, steps: Sequence[StepEntry] | None) -> list[Spell] | str:
    """Return the spells, or why they say nothing of the brokers: a producer that waited was down in one of them."""
    if isinstance(spells, str):
        return spells
    for one in client_downs(steps or ()):
        until_ns = one.to_ns or max((spell.to_ns for spell in spells), default=0)
        if one.client.kind == "producer" and any(
            spell.length_ns > CELL_NS and spell.to_ns > one.from_ns and spell.from_ns < until_ns for spell in spells
        ):
            return f"step {one.step.index} ({one.step.step}) took {one.client} down then"
    return spells


def _why_no_acks(manifest: Manifest) -> str:
    """Return why a partition has no spells: nobody waited there for an ack by acks=all."""
    if manifest.producers and not any(one.acks == ACKS["all"] for one in manifest.producers.values()):
        return NOBODY_WAITED[0]
    return NOBODY_WAITED[1]
