"""Follows the metadata logs of a whole quorum; the most advanced log is trusted.

The most advanced by epoch, then by offset, as in an election: a deposed controller's tail may be longer than the log
that replaced it, and never has the newer epoch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from ebbtide.kraft.commits import CommittedBatch, CommitWatch
from ebbtide.kraft.follower import MetadataFollower
from ebbtide.kraft.image import MetadataImage


class QuorumLogs:
    """Follows every controller's log; `image` is the state of the most advanced log."""

    def __init__(self, logs: Mapping[int, Path], mirrors: Mapping[int, Path] | None = None) -> None:
        """`logs` maps a controller id to its metadata log folder.

        `mirrors` maps it to the folder into which the bytes are copied.
        """
        mirrors = mirrors or {}
        self._followers = {node: MetadataFollower(log, mirrors.get(node)) for node, log in logs.items()}
        self._images = {node: MetadataImage() for node in logs}
        self.image = self._images[min(logs)]
        self._commits = CommitWatch(len(logs))

    @property
    def committed(self) -> list[CommittedBatch]:
        """What a majority was seen to have acknowledged, oldest first."""
        return self._commits.committed

    def poll(self) -> MetadataImage:
        """Read what is new on every disk; returns the most advanced image."""
        for node, follower in self._followers.items():
            self._images[node].apply(follower.poll())
        self._commits.observe({node: one.batches for node, one in self._followers.items()}, time.time_ns())
        self.image = self._images[max(self._followers, key=self._progress)]
        return self.image

    def _progress(self, node: int) -> tuple[int, int]:
        follower = self._followers[node]
        return (follower.batches[-1].epoch if follower.batches else -1, follower.next_offset)
