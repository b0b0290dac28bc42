"""Keeps which release each node of a running cluster runs, and since when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ebbtide import run_clock
from ebbtide.record.manifest import NodeRelease

Follow = Callable[[Mapping[int, Sequence[NodeRelease]]], None]
"""Called with the releases of every node."""


class NodeReleases:
    """The release of each node; every node begins with the cluster's."""

    def __init__(self, node_ids: Iterable[int], kafka: str) -> None:
        self._installed = dict.fromkeys(node_ids, kafka)
        self._started: dict[int, list[NodeRelease]] = {}
        self._follow: Follow | None = None

    def __getitem__(self, node_id: int) -> str:
        """The release that the node runs, or that its next start will run."""
        return self._installed[node_id]

    def install(self, node_id: int, kafka: str) -> None:
        """Let the node's next start run `kafka`, which `Runtime.require_release` has accepted."""
        self._installed[node_id] = kafka

    def follow(self, follow: Follow) -> None:
        """Call `follow` right before a node starts on another release than it ran before."""
        self._follow = follow

    def note_start(self, node_id: int) -> int:
        """Note that the node starts now; returns the time in nanoseconds."""
        now_ns = run_clock.now_ns()
        kafka, earlier = self._installed[node_id], self._started.setdefault(node_id, [])
        if not (earlier and earlier[-1].kafka == kafka):
            earlier.append(NodeRelease(kafka=kafka, started_ns=now_ns))
            if earlier[1:] and self._follow is not None:
                self._follow(self._started)
        return now_ns
