"""When each broker was dead, silent or registered, as far as the steps and the metadata log say."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from analysis.causes.evidence import NEVER, SLACK_NS, ClusterEvidence, Down
from ebbtide.record.node_times import Span
from ebbtide.record.rows import BrokerEvent, PartitionState

_BOOTS_NS = 200_000_000
"""A process takes at least this long before it registers; before that it neither leads nor fetches."""
_HEALS_NS = 210_000_000
"""A cut or a pause may be over this long before its step says so."""
_ONE_BATCH_NS = 2_000_000
"""Records of one batch of the metadata log have times as close as this."""


class BrokerLife(NamedTuple):
    """How a process ended, how it had registered, and how the next process did; None: there is no next one."""

    down: Down
    registered: BrokerEvent
    next_registered: BrokerEvent | None


class Liveness:
    """What is known of each broker's process. Two clocks may differ by the slack of the cluster."""

    def __init__(self, cluster: ClusterEvidence) -> None:
        self.cluster, self.slack = cluster, cluster.slack_ns
        self._downs: dict[int, list[Down]] = defaultdict(list)
        for down in cluster.downs:
            self._downs[down.broker].append(down)
        self._events: dict[int, list[BrokerEvent]] = defaultdict(list)
        self._all_events = cluster.broker_events or ()
        for event in self._all_events:
            self._events[event.broker].append(event)
        self._places = [event.metadata_offset for event in self._all_events]
        self._silences: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._lives = {broker: self._lives_of(broker) for broker in self._downs}

    # ---- by the steps: dead and silent brokers

    def died_by(self, broker: int, state: PartitionState) -> int:
        """Return the first time at or after a state by which the broker was surely dead, if it led by that state.

        A process that may have ended before the broker registered for that state is not the one that led. Where no
        registration is known, nor is one if the next process had the time to register.
        """
        if self._lives.get(broker):
            life = self._life_at(broker, state)
            return NEVER if life is None else life.down.ended.last_ns
        registered, _ = self.registrations_around(broker, state)
        since_ns = max([state.at_ns - self.slack, *(one.at_ns + self.slack for one in registered)])
        ends = [one.ended.last_ns for one in self._downs[broker] if registered or self._is_last_by(one, state)]
        return min((end for end in ends if end >= since_ns), default=NEVER)

    def _is_last_by(self, down: Down, state: PartitionState) -> bool:
        """Whether the process behind one that ended had not had the time to register by a state."""
        return state.at_ns < down.started_ns + _BOOTS_NS - self.slack

    def silences(self, one: int, other: int) -> list[tuple[int, int]]:
        """Return, by the clock of the steps, when surely nothing passed between two ends; overlaps are joined."""
        ends = (min(one, other), max(one, other))
        if ends not in self._silences:
            spans = [(down.ended.last_ns, self._back_ns(down)) for down in (*self._downs[one], *self._downs[other])]
            for silence in self.cluster.silences:
                until_ns = silence.until_ns - _HEALS_NS
                if ends in silence.links:
                    spans.append((silence.from_ns, until_ns))
                for broker in silence.brokers.intersection(ends):
                    spans.append((silence.from_ns, min(until_ns, self._next_end(broker, silence.from_ns))))
            joined: list[tuple[int, int]] = []
            for from_ns, until_ns in sorted(spans):
                if joined and from_ns <= joined[-1][1]:
                    from_ns, until_ns = joined[-1][0], max(until_ns, joined.pop()[1])
                joined.append((from_ns, until_ns))
            self._silences[ends] = joined
        return self._silences[ends]

    def _back_ns(self, down: Down) -> int:
        """Return the earliest time at which the next process leads or fetches: it has to register first."""
        after = [one.next_registered for one in self._lives[down.broker] if one.down.started_ns == down.started_ns]
        registered = [one.at_ns - self.slack for one in after if one is not None]
        return min(NEVER, max([down.started_ns + _BOOTS_NS, *registered]))

    def _next_end(self, broker: int, from_ns: int) -> int:
        """Return when the broker's process may have ended, at or after a time: a pause ends with it."""
        return min((one.ended.first_ns for one in self._downs[broker] if one.ended.last_ns >= from_ns), default=NEVER)

    def is_silent(self, one: int, other: int, from_ns: int, until_ns: int) -> bool:
        """Whether surely nothing passed between two ends from one time of the steps' clock to another."""
        return any(first <= from_ns and until_ns <= last for first, last in self.silences(one, other))

    def may_not_know(self, one: int, other: int, at_ns: int) -> bool:
        """Whether two brokers may both have been cut off from the same third end at a time of the metadata log.

        An end that both lack may have been the controller.
        """
        links = {
            link
            for silence in self.cluster.silences
            if silence.from_ns <= at_ns + self.slack and at_ns - self.slack <= silence.until_ns
            for link in silence.links
        }
        ends = {end for link in links for end in link} - {one, other}
        return any({(min(one, end), max(one, end)), (min(other, end), max(other, end))} <= links for end in ends)

    # ---- by the order of starts and registrations: processes

    def _lives_of(self, broker: int) -> Sequence[BrokerLife]:
        """Return the lives of a broker's processes, where each of them surely registered once; else none.

        Then the first registration is of the first process, and so on, whatever the clocks say.
        """
        ended = sorted(self._downs[broker], key=lambda down: down.ended.first_ns)
        # Steps that overlap leave open which of them ended which process.
        in_order = all(one.ended.last_ns <= one.started_ns <= two.ended.first_ns for one, two in pairwise(ended))
        of_process = {one.incarnation: one for one in reversed(self.registrations(broker))}
        registered = sorted(of_process.values(), key=lambda one: one.metadata_offset)
        starts = sum(down.started_ns < NEVER for down in ended)
        is_known = in_order and self.cluster.steps_known and self.cluster.log_whole and not self.cluster.log_torn
        if not is_known or None in of_process or len(registered) != starts + 1:
            return ()
        return [BrokerLife(*one) for one in zip(ended, registered, (*registered[1:], None), strict=False)]

    def _life_at(self, broker: int, state: PartitionState) -> BrokerLife | None:
        """Return the life of the process that the broker's session at a state is of, if it ended; None: not known."""
        return next(
            (
                one
                for one in self._lives.get(broker, ())
                if not self.is_before(state, one.registered)
                and (one.next_registered is None or self.is_before(state, one.next_registered))
            ),
            None,
        )

    def earliest_ns(self, state: PartitionState) -> int:
        """Return the earliest time of the steps' clock at which the record of a state may have been written.

        No process registers before it was started.
        """
        starts = [
            one.down.started_ns
            for lives in self._lives.values()
            for one in lives
            if one.next_registered is not None and not self.is_before(state, one.next_registered)
        ]
        return max([state.at_ns - self.slack, *starts])

    def life_within(self, broker: int, within: Span) -> BrokerLife | None:
        """Return the life of the process that ended, and was not started again, within a span; None: not known."""
        lives = [
            one
            for one in self._lives.get(broker, ())
            if one.down.ended.first_ns <= within.last_ns and within.first_ns <= one.down.started_ns
        ]
        return lives[0] if len(lives) == 1 else None

    def is_down_throughout(self, broker: int, within: Span) -> bool:
        """Whether a broker whose process ended somewhere within a span is down until the span is over.

        Where a clock was set, or the time of the end is not well known, a process may be back by then, unless the
        registrations say which process ended.
        """
        if self.life_within(broker, within) is not None:
            return True
        may_start = any(within.first_ns <= down.started_ns < within.last_ns for down in self._downs[broker])
        return self.slack <= SLACK_NS and not may_start

    # ---- by the metadata log: sessions

    def registrations(self, broker: int) -> list[BrokerEvent]:
        """Return the events in which the broker registered."""
        return [event for event in self._events[broker] if event.event == "registered"]

    def registrations_around(self, broker: int, state: PartitionState) -> tuple[list[BrokerEvent], list[BrokerEvent]]:
        """Return the broker's registrations up to the batch of a state's record, and those behind it."""
        closing, events = self._closes(state), self.registrations(broker)
        before = [one for one in events if one.metadata_offset < state.metadata_offset or one == closing]
        return before, events[len(before) :]

    def has_dead_session(self, broker: int, state: PartitionState) -> bool:
        """Whether the session that the broker has at a state is that of a process which had surely died before.

        Such a broker never learns that it was elected: its next process has to register first.
        """
        earliest_ns = self.earliest_ns(state)
        if self._lives.get(broker):
            life = self._life_at(broker, state)
            return life is not None and life.down.ended.last_ns <= earliest_ns
        before, _ = self.registrations_around(broker, state)

        def is_of(one: Down) -> bool:
            """Whether the session is of the process that ended.

            None has registered since. Where no registration is known, none has had the time to register.
            """
            return before[-1].at_ns + self.slack < one.ended.first_ns if before else self._is_last_by(one, state)

        return any(one.ended.last_ns <= earliest_ns and is_of(one) for one in self._downs[broker])

    def is_before(self, state: PartitionState, event: BrokerEvent) -> bool:
        """Whether the record of a state was written before an event, and not in its batch."""
        return state.metadata_offset < event.metadata_offset and self._closes(state) != event

    def registers_with(self, broker: int, state: PartitionState) -> bool:
        """Whether the broker registered in the batch of this state's record."""
        event = self._closes(state)
        return event is not None and (event.broker, event.event) == (broker, "registered")

    def may_lack_event(self, state: PartitionState) -> bool:
        """Whether the event of the batch of this state's record, which stands behind that record, may be missing."""
        is_last = bisect_right(self._places, state.metadata_offset) == len(self._places)
        is_known = self.cluster.broker_events is not None and self.cluster.log_whole
        return not is_known or (self.cluster.log_torn and is_last)

    def unfenced(self, state: PartitionState) -> frozenset[int] | None:
        """Return the brokers that could lead once the batch of this state's record was applied; None: not known."""
        if self.cluster.broker_events is None:
            return None
        before, closing = bisect_right(self._places, state.metadata_offset), self._closes(state)
        events = (*self._all_events[:before], *([] if closing is None else [closing]))
        last = {event.broker: event.event for event in events}
        return frozenset(broker for broker, event in last.items() if event == "unfenced")

    def _closes(self, state: PartitionState) -> BrokerEvent | None:
        """Return the fence or registration that a partition's record is from; it stands behind that record.

        A batch has one such event, at its end. So a later fence is of another batch, whatever its time is.
        """
        at = bisect_right(self._places, state.metadata_offset)
        near = (one for one in self._all_events[at : at + 1] if abs(one.at_ns - state.at_ns) < _ONE_BATCH_NS)
        return next((one for one in near if one.event in ("fenced", "registered")), None)
