"""Checks that the HW does not move while the ISR is below min ISR.

Two clocks meet: the controller's, which says when the ISR was below min ISR, and the observer's.
Only answers of the leader of that time, under its epoch, count. The leader must also surely have
known: the answer was asked for a while after the record that shrank the ISR, and given before the
record that grew it.

A leader that lost touch with the controller does not know. Three rules allow for that:
- The controller fences such a leader at most one session later. So nothing counts within a session
  (and a second) before a leader was removed, unless a step stopped it.
- While a step cut the leader off from a controller, nothing counts within a session after the
  shrink. The same holds if a broker was fenced within a session of the shrink and no step explains
  that: the host is too busy, and the leader may be late too.
- A step that keeps the metadata log from a leader whose heartbeats pass has no such bound, nor has
  a step on a controller. What it may have hidden counts as known one session after the step ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import msgspec

from analysis.judge.history.steps import end_of_fault
from analysis.record.record import Record
from ebbtide.record.rows import BrokerEvent, PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.clock import ResetClockStep
from ebbtide.scenario.steps.network import LimitBandwidthStep
from ebbtide.scenario.steps.step import LinkProof
from ebbtide.scenario.steps.table import (
    CLOCK_KINDS,
    CUT_KINDS,
    DISK_TROUBLES,
    KINDS,
    NETWORK_FAULTS,
    TAKES_DOWN,
    WIRE_KINDS,
)

LEARNS_WITHIN_NS = 500_000_000
"""How long a leader in touch with the controller may take to apply a record."""

_STOPPING = frozenset(kind for kind in TAKES_DOWN if KINDS[kind].loses != "all")
_DELAYS = CLOCK_KINDS | {kind for kind, one in KINDS.items() if one.volume == "slow"}
"""Steps that may delay records at any node. A clock that went back does so even after its end, until it catches up."""
_CUTS = CUT_KINDS - {"limit-bandwidth"}
_WIRE = frozenset(kind for kind, one in KINDS.items() if one.withholds)
_READS = frozenset({"ApiVersions", "Fetch", "FetchSnapshot"})
"""The requests on a broker's metadata log connection; heartbeats have another one."""
_MAY_BE_A_CONTROLLER = ("controller", "step(")
STOPS_A_NODE = TAKES_DOWN | DISK_TROUBLES | {"pause", "restart", "rolling", "upgrade"}
"""Steps after which a node does nothing for a while, or is slow."""
_DELAYS_HEARTBEATS = STOPS_A_NODE | CUT_KINDS | NETWORK_FAULTS | WIRE_KINDS | CLOCK_KINDS
"""A clock that goes back makes a node wait: it connects again only after as long as the clock went back."""


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch in which `leader` led with the ISR below min ISR and knew it.

    `leader_epoch` is its epoch; the ISR is the committed one, as the controller persisted it.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    metadata_offset: int
    min_isr: int
    isr: tuple[int, ...]
    start_ns: int
    end_ns: int | None

    @classmethod
    def of(
        cls, state: PartitionState, start_ns: int, end_ns: int | None, *, metadata_offset: int, min_isr: int = 0
    ) -> Self:
        """Return the stretch of a state."""
        return cls(
            topic=state.topic,
            partition=state.partition,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            metadata_offset=metadata_offset,
            min_isr=min_isr,
            isr=state.isr,
            start_ns=start_ns,
            end_ns=end_ns,
        )


class LeaderContact(msgspec.Struct, frozen=True, kw_only=True):
    """Decides when a leader was surely in touch with the controller.

    `session_ns` is the broker session timeout and a second more. `busy_ns`: when the controller fenced a broker
    that no step kept from it.
    """

    steps: tuple[StepEntry, ...] = ()
    controllers: tuple[int, ...] = ()
    session_ns: int
    busy_ns: tuple[int, ...] = ()

    @classmethod
    def of(cls, record: Record) -> LeaderContact:
        """Return the contact that a run's steps and fencings left."""
        steps, controllers = record.split_steps or (), record.manifest.topology.controllers
        session_ns = int((record.session_timeout_s + 1) * 1e9)
        busy = unexplained_fencings(record.timeline.brokers, steps, controllers, session_ns)
        return cls(steps=tuple(steps), controllers=controllers, session_ns=session_ns, busy_ns=tuple(busy))

    def known_part(self, interval: Interval, end_ns: int | None, *, removed: bool) -> list[Interval]:
        """Return the parts of an interval in which its leader surely knew of it.

        The interval ended at `end_ns`. `removed`: it ended because the controller removed the
        leader, perhaps long after the leader lost touch.
        """
        session_ns = self.session_ns
        cut_off = any(self._can_cut_off(step, interval, end_ns) for step in self.steps)
        busy = any(abs(at_ns - interval.start_ns) <= session_ns for at_ns in self.busy_ns)
        learns_within_ns = session_ns if cut_off or busy else LEARNS_WITHIN_NS
        start_ns = self._record_read_ns(interval, interval.start_ns + learns_within_ns)
        if start_ns is None:
            return []
        if end_ns is not None and removed:
            stopped = [
                step.fired_ns
                for step in self.steps
                if step.step in _STOPPING
                and interval.leader in step.nodes
                and step.fired_ns is not None
                and interval.start_ns <= step.fired_ns <= end_ns
            ]
            end_ns = min(stopped) if stopped and not cut_off else end_ns - session_ns
        if end_ns is not None and end_ns <= start_ns:
            return []
        return [msgspec.structs.replace(interval, start_ns=start_ns, end_ns=end_ns)]

    def _record_read_ns(self, interval: Interval, by_ns: int) -> int | None:
        """Return when the leader had surely read the record; None: at no known time.

        `by_ns` is that time if no step delayed it. A step that began later hid nothing that counts.
        """
        hiding = [step for step in self.steps if step.fired_ns is not None and self._can_hide(step, interval.leader)]
        for step in sorted(hiding, key=lambda one: one.fired_ns or 0):
            if (step.fired_ns or 0) > by_ns:
                break
            ended_ns = _end_of_delay(step)
            if ended_ns is None:
                return None
            by_ns = max(by_ns, ended_ns + self.session_ns)
        return by_ns

    def _can_hide(self, step: StepEntry, leader: int) -> bool:
        """Return whether the step may keep metadata records from a live leader."""
        readers = {leader, *self.controllers}
        among = not step.nodes or not readers.isdisjoint(step.nodes)
        if step.step in _WIRE:
            to = step.asked.to
            elsewhere = bool(to) and not any(one.startswith(_MAY_BE_A_CONTROLLER) for one in to or ())
            return among and step.asked.api in _READS and not elsewhere
        if step.is_a(LimitBandwidthStep):
            return self._is_between(step, readers)
        if step.step in _CUTS and self._is_between(step, {*self.controllers}):
            return True
        if step.step in _DELAYS:
            return among
        # On a controller they may delay commits, and brokers' discovery of the leader.
        return step.step in STOPS_A_NODE and not set(self.controllers).isdisjoint(step.nodes)

    def _is_between(self, step: StepEntry, nodes: set[int]) -> bool:
        """Return whether a cut or limit may be between a node and a controller."""
        links = step.figures(LinkProof).links
        if links is not None and self.controllers:
            ends = {frozenset(pair) for pair in links.pairs}
            return any(frozenset({one, controller}) in ends for one in nodes for controller in self.controllers)
        return not step.nodes or not nodes.isdisjoint(step.nodes)

    def _can_cut_off(self, step: StepEntry, interval: Interval, end_ns: int | None) -> bool:
        """Return whether the step may have cut the leader off from a controller."""
        if step.step not in _CUTS | {"pause"} or step.fired_ns is None:
            return False
        ended_ns = end_of_fault(step)
        after = end_ns is not None and step.fired_ns >= end_ns
        before = ended_ns is not None and ended_ns < interval.start_ns
        return not after and not before and self._is_between(step, {interval.leader})


def intervals_below(record: Record, contact: LeaderContact) -> list[Interval]:
    """Return every stretch below min ISR whose leader surely knew of it.

    A stretch in which a record may be missing does not count: the ISR may have grown.
    """
    found: list[Interval] = []
    for (topic, partition), states in record.timeline.partitions.items():
        open_: Interval | None = None
        before: PartitionState | None = None
        for state, offset, at_ns in _moments(record, topic, partition, states):
            if before is not None and state.lacks_record_since(before):
                open_ = None
            before = state
            min_isr = record.protocol.leader_min_isr(state, offset)
            below = state.leader >= 0 and min_isr is not None and len(state.isr) < min_isr
            same = open_ is not None and (open_.leader, open_.leader_epoch) == (state.leader, state.leader_epoch)
            if open_ is not None and not (below and same):
                found += contact.known_part(open_, at_ns, removed=state.leader != open_.leader)
                open_ = None
            if below and open_ is None and min_isr is not None:
                open_ = Interval.of(state, at_ns, None, metadata_offset=offset, min_isr=min_isr)
        if open_ is not None:
            end_ns = record.timeline.newest_ns if record.ends_early else None
            found += contact.known_part(open_, end_ns, removed=False)
    return found


def _moments(
    record: Record, topic: str, partition: int, states: Sequence[PartitionState]
) -> list[tuple[PartitionState, int, int]]:
    """Return the states and the changes of min ISR between them, in order.

    Each is (state in force, metadata offset, time in ns).
    """
    times = {change.metadata_offset: change.at_ns for change in record.timeline.configs}
    moments = [(state, state.metadata_offset, state.at_ns) for state in states]
    for offset in record.protocol.min_isr_changes(topic):
        state = record.timeline.state_at(topic, partition, offset)
        if state is not None:
            moments.append((state, offset, times[offset]))
    return sorted(moments, key=lambda moment: moment[1])


def unexplained_fencings(
    brokers: Sequence[BrokerEvent], steps: Sequence[StepEntry], controllers: Sequence[int], session_ns: int
) -> list[int]:
    """Return the times, in ns, of the fencings that no step explains: the host is too busy for its cluster.

    The heartbeats of such a broker came late because it, the controller or the host was slow.

    A step explains those of its nodes from its start to one session after its end; one on a controller, or on no node
    in particular, explains those of all brokers.
    """
    fencings = [event for event in brokers if event.event == "fenced"]
    return [
        fencing.at_ns
        for fencing in fencings
        if not any(_explains(step, fencing, controllers, session_ns) for step in steps)
    ]


def _end_of_delay(step: StepEntry) -> int | None:
    """Return when the step delayed no node any more; None: never, as a clock that went back when it was reset."""
    return None if step.is_a(ResetClockStep) else end_of_fault(step)


def _explains(step: StepEntry, fencing: BrokerEvent, controllers: Sequence[int], session_ns: int) -> bool:
    if step.step not in _DELAYS_HEARTBEATS or step.fired_ns is None or step.fired_ns > fencing.at_ns:
        return False
    if step.nodes and {fencing.broker, *controllers}.isdisjoint(step.nodes):
        return False
    ended_ns = _end_of_delay(step)
    return ended_ns is None or fencing.at_ns <= ended_ns + session_ns
