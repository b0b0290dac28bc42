"""Follows the metadata logs of a whole quorum; the most advanced log is trusted.

The most advanced by epoch, then by offset, as in an election: a deposed controller's tail may be longer than the log
that replaced it, and never has the newer epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ebbtide import run_clock
from ebbtide.kraft.commits import CommittedBatch, CommitWatch, VoterSet
from ebbtide.kraft.follower import MetadataFollower
from ebbtide.kraft.image import MetadataImage
from ebbtide.logs.checkpoint_file import directory_id_in


class QuorumLogs:
    """Follows every controller's log; `image` is the state of the most advanced log."""

    def __init__(
        self, logs: Mapping[int, Path], mirrors: Mapping[int, Path] | None = None, *, is_dynamic: bool = False
    ) -> None:
        """`logs` maps a controller id to its metadata log folder.

        `mirrors` maps it to the folder into which the bytes are copied. `is_dynamic`: records say who votes.
        """
        mirrors = mirrors or {}
        self._data_dirs = {node: log.parent for node, log in logs.items()} if is_dynamic else {}
        self._followers = {node: MetadataFollower(log, mirrors.get(node)) for node, log in logs.items()}
        self._images = {node: MetadataImage() for node in logs}
        self.image = self._images[min(logs)]
        self._commits = CommitWatch(len(logs), is_dynamic=is_dynamic)

    @property
    def committed(self) -> list[CommittedBatch]:
        """What a majority of the voters was seen to have acknowledged, oldest first."""
        return self._commits.committed

    @property
    def end_offset(self) -> int:
        """Where the most advanced log ended at the last poll."""
        return self._followers[max(self._followers, key=self._progress)].next_offset

    def poll(self) -> MetadataImage:
        """Read what is new on every disk; returns the most advanced image."""
        for node, follower in self._followers.items():
            self._images[node].apply(follower.poll())
        self._commits.observe(
            {node: one.batches for node, one in self._followers.items()},
            run_clock.now_ns(),
            {node: image.voter_sets for node, image in self._images.items()},
            self._directories(),
        )
        self.image = self._images[max(self._followers, key=self._progress)]
        return self.image

    @property
    def committed_voters(self) -> VoterSet | None:
        """The newest set of voters in the most advanced log, if a majority of these voters has its record."""
        newest = self.image.voter_sets[-1] if self.image.voter_sets else None
        if newest is None:
            return None
        directories = self._directories()
        having = {
            node: directories[node]
            for node, image in self._images.items()
            if node in directories and image.voter_sets and image.voter_sets[-1] == newest
        }
        return newest if newest.majority_of(having) is not None else None

    def _directories(self) -> dict[int, str]:
        found = {node: directory_id_in(folder) for node, folder in self._data_dirs.items()}
        return {node: directory for node, directory in found.items() if directory is not None}

    def _progress(self, node: int) -> tuple[int, int]:
        follower = self._followers[node]
        return (follower.batches[-1].epoch if follower.batches else -1, follower.next_offset)
