"""Says which releases the nodes of a run ran, and when: releases are mixed while an upgrade is under way.

The manifest has the start of each release on each node. A node's process has ended before its next
one starts, and all times are of one host's clock, so the answer is exact for a node.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain

from analysis.record.timeline import Timeline
from ebbtide.record.manifest import Manifest
from ebbtide.record.rows import Row


class Software:
    """The releases of the nodes by time, and of the active controller by metadata offset."""

    def __init__(self, manifest: Manifest, timeline: Timeline) -> None:
        self._kafka = manifest.kafka
        self._releases, self._every = manifest.releases, manifest.release_path
        self._controllers = manifest.topology.controllers
        states = (one for each in timeline.partitions.values() for one in each)
        rows: chain[Row] = chain(timeline.brokers, timeline.configs, states)
        self._times = sorted({(one.metadata_offset, one.at_ns) for one in rows})

    @property
    def every_release(self) -> tuple[str, ...]:
        """Each release that a node ran, the first one first."""
        return self._every

    def release_of(self, node: int, at_ns: int) -> str:
        """Return the release of the node's last process that started until `at_ns`."""
        started = [one for one in self._releases.get(str(node), ()) if one.started_ns <= at_ns]
        return started[-1].kafka if started else self._kafka

    def is_mixed(self, at_ns: int) -> bool:
        """Return whether nodes ran different releases then."""
        return len({self.release_of(int(node), at_ns) for node in self._releases}) > 1

    def controller_releases(self, metadata_offset: int) -> tuple[str, ...]:
        """Return the releases of which the controller may be that wrote the record at this offset.

        They are more than one while the controllers are mixed: no table says which one was active.
        """
        if not self._releases:
            return (self._kafka,)
        at = min(bisect_left(self._times, (metadata_offset, 0)), len(self._times) - 1)
        if at < 0:
            return self.every_release
        at_ns = self._times[at][1]
        return tuple(dict.fromkeys(self.release_of(one, at_ns) for one in self._controllers)) or self.every_release
