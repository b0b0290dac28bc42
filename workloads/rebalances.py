"""A consumer's membership of its group: what it is given and loses, and leaving on purpose.

The client calls its rebalance listener on its own event loop, inside a poll and maybe on another thread, so what
it says is kept and applied by the consumer's thread before anything that the poll returned is journalled.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from ebbtide.record.clients import ClientEvent, Event
from workloads.config import ConsumerConfig

_COMMIT_MS = 2_000


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Keeps what the client says, in order."""

    def __init__(self) -> None:
        self.told: deque[tuple[Event, int, tuple[TopicPartition, ...]]] = deque()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """The member no longer has them; also called when they were lost."""
        self.told.append(("revoked", time.time_ns(), tuple(sorted(revoked))))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """The member has them from now on."""
        self.told.append(("assigned", time.time_ns(), tuple(sorted(assigned))))


class Membership:
    """Joins at once. `assigned` is called with partitions that came, `tell` with each rebalance as an event."""

    def __init__(
        self,
        consumer: KafkaConsumer,
        config: ConsumerConfig,
        assigned: Callable[[Sequence[TopicPartition]], None],
        tell: Callable[[ClientEvent], None],
    ) -> None:
        self._consumer = consumer
        self._topics = list(config.topics)
        self._leave_every = config.leave_every
        self._assigned = assigned
        self._tell = tell
        self._listener = Listener()
        self._returned = 0
        self._join()

    def apply(self) -> None:
        """Let what the client said since the last time take effect."""
        for _ in range(len(self._listener.told)):
            event, at_ns, partitions = self._listener.told.popleft()
            if event == "assigned":
                self._assigned(partitions)
            self._tell(
                ClientEvent(
                    event=event, at_ns=at_ns, partitions=tuple(f"{one.topic}-{one.partition}" for one in partitions)
                )
            )

    def returned(self, count: int) -> None:
        """So many records were journalled; when it is time, leave with them committed, and join again."""
        self._returned += count
        if self._leave_every is None or self._returned < self._leave_every:
            return
        self._returned = 0
        # What cannot be committed now is read again by whoever gets the partition.
        with contextlib.suppress(KafkaError):
            self._consumer.commit(timeout_ms=_COMMIT_MS)
        self._consumer.unsubscribe()
        self._join()

    def _join(self) -> None:
        self._consumer.subscribe(topics=self._topics, listener=self._listener)
