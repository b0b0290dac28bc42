"""A cluster to break step by step, with producers and consumers whose every record is accounted for at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.command import COMMAND
from ebbtide.pytest_plugin.kafka_cluster import Breakable

if TYPE_CHECKING:
    from ebbtide.daemon.messages import ClusterStatus


class Chaos(Breakable):
    """One run, driven by a test. After the test everything is healed, settled and read, and the record is judged."""

    def __init__(self, status: ClusterStatus, topics: tuple[str, ...], command: Sequence[str] = COMMAND) -> None:
        super().__init__(status, command)
        self.topics = topics
