"""A consumer's membership of its group: assigned and revoked partitions, leaving.

The client calls its rebalance listener on its own event loop, inside a poll and maybe on another thread. The listener
therefore only keeps the events. The consumer's thread applies them before it journals anything that the poll
returned.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from ebbtide import run_clock
from ebbtide.record.clients import ClientEvent, Event
from workloads.config import ConsumerConfig

_COMMIT_MS = 2_000


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Keeps the client's rebalance events, in order."""

    def __init__(self) -> None:
        self.events: deque[tuple[Event, int, tuple[TopicPartition, ...]]] = deque()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Keep that the member no longer has these partitions, revoked or lost."""
        self.events.append(("revoked", run_clock.now_ns(), tuple(sorted(revoked))))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Keep that the member has these partitions from now on."""
        self.events.append(("assigned", run_clock.now_ns(), tuple(sorted(assigned))))


class Membership:
    """Membership of the group; joins at once.

    `assigned` is called with new partitions, `write_event` with each rebalance as an event. `commit` is called before
    the member leaves; None: the client commits, and nothing is journalled.
    """

    def __init__(
        self,
        consumer: KafkaConsumer,
        config: ConsumerConfig,
        assigned: Callable[[Sequence[TopicPartition]], None],
        write_event: Callable[[ClientEvent], None],
        commit: Callable[[], None] | None = None,
    ) -> None:
        self._consumer = consumer
        self._commit = commit
        self._topics = list(config.topics)
        self._leave_every = config.leave_every
        self._assigned = assigned
        self._write_event = write_event
        self._listener = Listener()
        self._returned = 0
        self._join()

    def apply(self) -> None:
        """Apply the rebalance events since the last call."""
        event: Event | None = None
        for _ in range(len(self._listener.events)):
            event, at_ns, partitions = self._listener.events.popleft()
            if event == "assigned":
                self._assigned(partitions)
            self._write_event(
                ClientEvent(
                    event=event, at_ns=at_ns, partitions=tuple(f"{one.topic}-{one.partition}" for one in partitions)
                )
            )
        if event == "revoked":
            # The poll ended before the assignment came.
            self._consumer.continue_rebalance()

    def count_returned(self, count: int) -> None:
        """Count journalled records; when it is time, commit, leave and join again."""
        self._returned += count
        if self._leave_every is None or self._returned < self._leave_every:
            return
        self._returned = 0
        # Records that cannot be committed now are read again by the next owner of the partition.
        if self._commit is not None:
            self._commit()
        else:
            with contextlib.suppress(KafkaError):
                self._consumer.commit(timeout_ms=_COMMIT_MS)
        self._consumer.unsubscribe()
        self._join()

    def _join(self) -> None:
        self._consumer.subscribe(topics=self._topics, listener=self._listener)
