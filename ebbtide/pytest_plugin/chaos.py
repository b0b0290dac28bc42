"""The `chaos` fixture.

It is a cluster with clients that a test breaks, and whose record is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ebbtide.command import COMMAND
from ebbtide.pytest_plugin.kafka_cluster import Breakable

if TYPE_CHECKING:
    from ebbtide.daemon.messages import ClusterStatus


class Chaos(Breakable):
    """One run that a test drives.

    After the test Ebbtide heals every fault, waits until the cluster settles, reads all partitions and judges the
    record.
    """

    def __init__(self, status: ClusterStatus, topics: tuple[str, ...], command: Sequence[str] = COMMAND) -> None:
        super().__init__(status, command)
        self.topics = topics

    def create_topic(self, topic: str, **settings: Any) -> str:
        """Create a topic for the test's own clients, and return its name.

        A topic of Ebbtide's clients that a step deleted is made again by the step `create-topic`. To get its line of
        steps.jsonl, call `fire("create-topic", topic=...)`.
        """
        __tracebackhide__ = True
        if topic in self.topics:
            self.fire("create-topic", topic=topic, **settings)
            return topic
        return self._new_topic(topic, **settings)
