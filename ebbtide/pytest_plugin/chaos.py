"""The `chaos` fixture.

It is a cluster with clients that a test breaks, and whose record is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
