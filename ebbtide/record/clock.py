"""clock.jsonl, and the one place where a time of Kafka's becomes a time of the run.

Ebbtide's own processes note the times of the run's clock, which never goes back (`ebbtide.run_clock`). Kafka's nodes
write the wall clock's time into their logs. clock.jsonl says how far the wall clock was ahead of the run's clock, and
where the metadata log ended meanwhile; the proofs of steps that set a node's clock say how far that clock was ahead of
the wall clock. `KafkaClocks.time_of` undoes both.

A record without clock.jsonl was made by an older Ebbtide or somewhere else: its clock was not watched, and Kafka's
times are taken as they are.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated

import msgspec

from ebbtide.errors import UsageError
from ebbtide.record.files import CLOCK_FILE, RecordFolder
from ebbtide.record.manifest import TimeNs
from ebbtide.record.steps import StepEntry
from ebbtide.run_clock import STEP_NS
from ebbtide.scenario.steps.clock import ClockProof
from ebbtide.untrusted.files import read_file
from ebbtide.untrusted.values import decode_json

CLOCK_AHEAD = "clock_ahead_ns"
"""Key of a proof: how far the clock of each node is ahead of the wall clock from that step on, by node id.

`{"1": 3600000000000}`; it is 0 again once the step is healed.
"""

READINGS_MAX = 1_000_000
"""As many readings as a run of days leaves."""

_ALIKE_NS = 100_000_000
"""Where two leads fit a time about equally well, nothing says which one was in force."""
_EVER_NS = 1 << 62


class ClockReading(msgspec.Struct, frozen=True, kw_only=True):
    """One line of clock.jsonl: `wall_ns` is what the wall clock said at the time `at_ns` of the run.

    `metadata_end` is where the metadata log ended, as far as the observer had read it. A line is written when the log
    has grown, and on both sides of a step of the wall clock.
    """

    at_ns: TimeNs
    wall_ns: TimeNs
    metadata_end: Annotated[int, msgspec.Meta(ge=0)] = 0

    @property
    def lead_ns(self) -> int:
        """How far the wall clock was ahead."""
        lead = self.wall_ns - self.at_ns
        return lead if abs(lead) >= STEP_NS else 0


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """A clock was `by_ns` ahead of the run's clock from some time after `from_ns` until some time before `until_ns`.

    `node` None: the clock of every node whose own clock no step set.
    """

    node: int | None = None
    by_ns: int
    from_ns: int = -_EVER_NS
    until_ns: int = _EVER_NS


class TimeFound(msgspec.Struct, frozen=True, kw_only=True):
    """The time of the run at which a node noted a time; `or_ns` is another one that fits as well."""

    at_ns: int
    or_ns: int | None = None


class KafkaClocks(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """How far the clocks of Kafka's nodes were ahead of the run's clock; `is_watched`: the record says it."""

    readings: tuple[ClockReading, ...] = ()
    leads: tuple[Lead, ...] = ()

    @property
    def is_watched(self) -> bool:
        """Whether the recorder compared the clocks."""
        return bool(self.readings)

    @property
    def was_set(self) -> bool:
        """Whether any clock was ever ahead, so that times must be corrected."""
        return any(one.by_ns for one in self.leads)

    def steps(self) -> list[tuple[ClockReading, ClockReading]]:
        """Return the readings on both sides of each step of the wall clock."""
        return [(before, after) for before, after in pairwise(self.readings) if _has_step(before, after)]

    def time_of(self, wall_ns: int, *, node: int | None = None, metadata_offset: int | None = None) -> TimeFound:
        """Return the time of the run at which a node's clock said `wall_ns`.

        `node` None: any controller. `metadata_offset` is that of a record of the metadata log which has this time: the
        observer saw the record between two looks, which tells the hour before a clock was set back from the hour after.
        """
        if not self.was_set:
            return TimeFound(at_ns=wall_ns)
        seen = self._seen(metadata_offset) if metadata_offset is not None else (-_EVER_NS, _EVER_NS)
        found: dict[int, int] = {}
        own = [lead for lead in self.leads if lead.node == node]
        for lead in self.leads if node is None else own or [lead for lead in self.leads if lead.node is None]:
            at = wall_ns - lead.by_ns
            misfit = _outside(at, lead.from_ns, lead.until_ns) + _outside(at, *seen)
            found[at] = min(misfit, found.get(at, misfit))
        best, *others = sorted(found, key=found.__getitem__)
        if others and found[others[0]] - found[best] < _ALIKE_NS:
            return TimeFound(at_ns=best, or_ns=others[0])
        return TimeFound(at_ns=best)

    @cached_property
    def _ends(self) -> list[int]:
        """The end of the metadata log at each reading, without what was truncated later."""
        ends: list[int] = []
        least = _EVER_NS
        for reading in reversed(self.readings):
            least = min(least, reading.metadata_end)
            ends.append(least)
        return ends[::-1]

    def _seen(self, offset: int) -> tuple[int, int]:
        """Return the times of the last look without a record of the metadata log and of the first look with it."""
        at = bisect_right(self._ends, offset)
        before = self.readings[at - 1].at_ns if at else -_EVER_NS
        return before, self.readings[at].at_ns if at < len(self.readings) else _EVER_NS


def _outside(at: int, from_ns: int, until_ns: int) -> int:
    return max(from_ns - at, at - until_ns, 0)


def _has_step(before: ClockReading, after: ClockReading) -> bool:
    return abs(after.lead_ns - before.lead_ns) >= STEP_NS


def read_clock(record: RecordFolder) -> tuple[ClockReading, ...]:
    """Return the readings of a record in their order; empty if its clock was not watched.

    Raises `UsageError` for a file that is damaged or has too many lines.
    """
    path = record / CLOCK_FILE
    if not os.path.lexists(path):
        return ()
    lines = read_file(path, what=CLOCK_FILE).splitlines()
    if len(lines) > READINGS_MAX:
        allowed = f"up to {READINGS_MAX:,}"
        raise UsageError(f"{CLOCK_FILE} has too many lines", where=str(path), got=f"{len(lines):,}", allowed=allowed)
    try:
        found = [decode_json(line, ClockReading) for line in lines if line.strip()]
    except msgspec.DecodeError as error:
        raise UsageError(f"{CLOCK_FILE} is damaged", where=str(path), got=str(error)) from None
    return tuple(found)


def kafka_clocks(readings: tuple[ClockReading, ...], steps: Sequence[StepEntry] | None) -> KafkaClocks:
    """Return how far Kafka's clocks were ahead, by the readings of clock.jsonl and the proofs of the steps.

    Raises `UsageError` for a proof that is damaged.
    """
    host = _host_leads(readings)
    leads = list(host)
    for node, offsets in _node_offsets(steps or ()).items():
        for offset in offsets:
            for one in host:
                from_ns, until_ns = max(one.from_ns, offset.from_ns), min(one.until_ns, offset.until_ns)
                if from_ns < until_ns:
                    by_ns = one.by_ns + offset.by_ns
                    leads.append(Lead(node=node, by_ns=by_ns, from_ns=from_ns, until_ns=until_ns))
    return KafkaClocks(readings=readings, leads=tuple(leads))


def _host_leads(readings: Sequence[ClockReading]) -> list[Lead]:
    """Return the leads of the wall clock, oldest first; a step lies between two readings."""
    if not readings:
        return [Lead(by_ns=0)]
    found = [Lead(by_ns=readings[0].lead_ns, from_ns=readings[0].at_ns)]
    for before, after in pairwise(readings):
        if _has_step(before, after):
            found[-1] = msgspec.structs.replace(found[-1], until_ns=after.at_ns)
            found.append(Lead(by_ns=after.lead_ns, from_ns=before.at_ns))
    return [*found[:-1], msgspec.structs.replace(found[-1], until_ns=readings[-1].at_ns)]


def _node_offsets(steps: Sequence[StepEntry]) -> dict[int, list[Lead]]:
    """Return how far each node's clock was ahead of the wall clock, by the steps that set it.

    While a step acts, the clock may already say the new time or still the old one.
    """
    found: dict[int, list[Lead]] = {}
    for step in sorted(steps, key=lambda one: one.fired_ns or 0):
        for node, by_ns in _set_clocks(step).items():
            if step.fired_ns is None:
                continue
            offsets = found.setdefault(node, [Lead(node=node, by_ns=0)])
            ended_ns = step.effect_ns or _EVER_NS
            offsets[:] = [
                msgspec.structs.replace(lead, until_ns=min(lead.until_ns, ended_ns))
                for lead in offsets
                if lead.from_ns < ended_ns
            ]
            offsets.append(Lead(node=node, by_ns=by_ns, from_ns=step.fired_ns, until_ns=step.healed_ns or _EVER_NS))
            if step.healed_ns is not None:
                offsets.append(Lead(node=node, by_ns=0, from_ns=step.healed_ns))
    return found


def _set_clocks(step: StepEntry) -> dict[int, int]:
    """Return how far the step set the clock of each node ahead. Raises `UsageError` for a damaged proof."""
    proof = step.figures(ClockProof)
    if CLOCK_AHEAD in proof.unread:
        where = f"step {step.index}, its proof, {CLOCK_AHEAD}"
        raise UsageError("steps.jsonl is damaged", where=where, got=proof.unread[CLOCK_AHEAD])
    return proof.clock_ahead_ns or {}
