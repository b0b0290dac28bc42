"""The ELR and LastKnownElr of a partition as KIP-966's text has them, from the metadata log.

No release records them so: without the ELR feature there is neither, and with it LastKnownElr has
one entry, the last leader. An unclean recovery by the text needs both. They follow from what every
release records: ISR changes, registrations, and the beginning of a controlled shutdown.

- ELR: a replica that leaves the ISR while the ISR is below min ISR enters it. It is empty once the
  ISR is at min ISR (ELR update 1 and 2). A leaderless partition has no live ISR member, so its ISR
  counts as empty, also where a release keeps the last member in it.
- LastKnownElr: an ELR member that registers after an unclean shutdown moves into it. It is empty
  once the ISR is at min ISR (Other behaviors 6).
- A new min.insync.replicas empties the ELR only if the ISR is at the new value (Other behaviors 2).

A registration counts as clean if the broker had begun a controlled shutdown under its registration
before. No record says more: a broker that was killed during its controlled shutdown counts as clean
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

import msgspec

from ebbtide.logs.segments import TopicPartition
from ebbtide.record.rows import BrokerEvent, ConfigChange, PartitionState, Row


class KipElr(msgspec.Struct, frozen=True, kw_only=True):
    """Both sets of one partition."""

    elr: frozenset[int] = frozenset()
    last_known_elr: frozenset[int] = frozenset()


def kip_elr(rows: Iterable[Row], at: TopicPartition) -> KipElr:
    """Return both sets after `rows`, the changes of the metadata log in order."""
    found = _Following(at)
    for row in rows:
        match row:
            case PartitionState(topic=at.topic, partition=at.partition):
                found.follow_partition(row)
            case BrokerEvent():
                found.follow_broker(row)
            case ConfigChange(name="min.insync.replicas"):
                found.follow_config(row)
    return KipElr(elr=frozenset(found.elr), last_known_elr=frozenset(found.last_known))


class _Following:
    """The sets so far."""

    def __init__(self, at: TopicPartition) -> None:
        self.elr: Set[int] = frozenset()
        self.last_known: Set[int] = frozenset()
        self._resources = (f"topic:{at.topic}", "cluster")
        self._configured: dict[str, int] = {}
        self._isr: Set[int] = frozenset()
        self._replica_count = 0
        self._shutting_down: set[int] = set()

    @property
    def _min_isr(self) -> int:
        configured = next((self._configured[one] for one in self._resources if one in self._configured), 1)
        return min(configured, self._replica_count)

    def follow_partition(self, row: PartitionState) -> None:
        before, self._isr = self._isr, frozenset(row.isr) if row.leader >= 0 else frozenset()
        self._replica_count = len(row.replicas)
        if len(self._isr) >= self._min_isr:
            self.elr, self.last_known = frozenset(), frozenset()
        else:
            self.elr = ((self.elr | before) - self._isr) & frozenset(row.replicas)

    def follow_broker(self, event: BrokerEvent) -> None:
        if event.event == "shutting_down":
            self._shutting_down.add(event.broker)
        elif event.event == "registered":
            clean = event.broker in self._shutting_down
            self._shutting_down.discard(event.broker)
            if not clean and event.broker in self.elr:
                self.elr -= {event.broker}
                self.last_known |= {event.broker}

    def follow_config(self, change: ConfigChange) -> None:
        if change.resource not in self._resources:
            return
        if change.value is None:
            self._configured.pop(change.resource, None)
        else:
            self._configured[change.resource] = int(change.value)
        if self._replica_count and len(self._isr) >= self._min_isr:
            self.elr = frozenset()
