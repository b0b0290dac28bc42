"""When each broker was dead, hindered or registered, as far as the steps and the metadata log say."""

from __future__ import annotations

from collections import defaultdict

from analysis.causes.history import NEVER, ClusterHistory, Down
from ebbtide.record.rows import BrokerEvent, PartitionState

LEARNS_NS = 500_000_000
"""A living broker that nothing hinders has learned of an election by then."""
STOPS_NS = 1_000_000_000
"""A living broker that nothing hinders appends no more this long after another was elected."""
_ONE_BATCH_NS = 2_000_000
"""Records of one batch of the metadata log have times as close as this."""


class Liveness:
    """What is known of each broker's process. Two clocks may differ by the slack of the cluster."""

    def __init__(self, cluster: ClusterHistory) -> None:
        self.cluster = cluster
        self.slack = cluster.slack_ns
        self._downs: dict[int, list[Down]] = defaultdict(list)
        for down in cluster.downs:
            self._downs[down.broker].append(down)
        self._events: dict[int, list[BrokerEvent]] = defaultdict(list)
        for event in cluster.broker_events or ():
            self._events[event.broker].append(event)

    def is_dead(self, broker: int, from_ns: int, until_ns: int) -> bool:
        """Whether the broker was surely dead all the time from the first moment to the second."""
        return self.cluster.steps_known and any(
            one.proven and one.ended.last_ns + self.slack <= from_ns and until_ns < one.started_ns - self.slack
            for one in self._downs[broker]
        )

    def has_dead_session(self, broker: int, state: PartitionState) -> bool:
        """Whether the session that the broker has at a state is that of a process which had surely died before.

        Such a broker never learns that it was elected: its next process has to register first.
        """
        if not self.cluster.steps_known:
            return False
        at_ns = state.at_ns
        if self.is_dead(broker, at_ns, at_ns):
            return True
        events = self.registrations(broker)
        registered = [
            one.at_ns for one in events if one.metadata_offset < state.metadata_offset or _is_of_batch(one, state)
        ]
        return bool(registered) and any(
            one.proven and one.ended.last_ns + self.slack <= at_ns and one.ended.first_ns > registered[-1] + self.slack
            for one in self._downs[broker]
        )

    def registrations(self, broker: int) -> list[BrokerEvent]:
        """Return the events in which the broker registered."""
        return [event for event in self._events[broker] if event.event == "registered"]

    def died_by(self, broker: int, from_ns: int) -> int:
        """Return the first time after a moment by which the broker was surely dead."""
        ends = [one.ended.last_ns for one in self._downs[broker] if one.proven]
        return min((end for end in ends if end >= from_ns - self.slack), default=NEVER)

    def is_hindered(self, broker: int, from_ns: int, until_ns: int) -> bool:
        """Whether a step may have kept the broker from learning or acting within these times."""
        if not self.cluster.steps_known:
            return True
        cut = any(
            broker in one.brokers and one.from_ns - self.slack <= until_ns and one.until_ns + STOPS_NS >= from_ns
            for one in self.cluster.hindrances
        )
        return cut or any(self._was_down(broker, one, from_ns, until_ns) for one in self._downs[broker])

    def _was_down(self, broker: int, one: Down, from_ns: int, until_ns: int) -> bool:
        """Whether the broker may still have been down, or not back yet: its next process registers first."""
        if one.ended.first_ns - self.slack > until_ns:
            return False
        if self.cluster.broker_events is None:
            return one.started_ns + STOPS_NS >= from_ns
        surely_ended_ns = one.ended.last_ns + self.slack
        return not any(surely_ended_ns < event.at_ns <= from_ns for event in self.registrations(broker))

    def registers_with(self, broker: int, state: PartitionState) -> bool:
        """Whether the broker registered in the batch of this state's record."""
        return any(_is_of_batch(event, state) for event in self.registrations(broker))

    def unfenced(self, state: PartitionState) -> frozenset[int] | None:
        """Return the brokers that could lead once the batch of this state's record was applied; None: not known."""
        if self.cluster.broker_events is None:
            return None
        found = set()
        for event in self.cluster.broker_events:
            before = event.metadata_offset < state.metadata_offset
            if event.event == "unfenced" and before:
                found.add(event.broker)
            elif event.event != "unfenced" and (before or _is_of_batch(event, state)):
                found.discard(event.broker)
        return frozenset(found)


def _is_of_batch(event: BrokerEvent, state: PartitionState) -> bool:
    """Whether a fence or a registration is in the batch of a partition's record; it stands behind that record."""
    is_behind = event.metadata_offset > state.metadata_offset
    return is_behind and abs(event.at_ns - state.at_ns) < _ONE_BATCH_NS
