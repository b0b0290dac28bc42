"""When a step ended, emptied or started a node: the first and the last moment that is possible for each.

The runtimes and the faults measure these times, and steps.jsonl keeps them for each node of a step. Between the two
moments, nobody knows whether something else came before the event or after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ebbtide import run_clock


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """An event happened at `first_ns`, at `last_ns` or in between, by the clock of the run."""

    first_ns: int
    last_ns: int

    def __post_init__(self) -> None:
        """Raise `ValueError` for a span that ends before it begins."""
        if self.first_ns > self.last_ns:
            raise ValueError(f"a span cannot end at {self.last_ns}, before it begins at {self.first_ns}")

    @classmethod
    def since(cls, first_ns: int) -> Span:
        """Return the span of an event that happened after `first_ns`, and not later than now."""
        return cls(first_ns=first_ns, last_ns=max(first_ns, run_clock.now_ns()))


class NodeTimes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to one node in a step; None: it did not happen, or nobody knows when.

    - `ended`: its process ended. After a SIGKILL the first moment is that of the signal. After a clean stop, or where
      it ended by itself, it is the last look at which the process ran.
    - `log_gone`: its volume lost records that it had, by a power loss, an I/O error or a replaced disk.
    - `started`: its process was started; whether the node took part in the cluster by then is another question.
    """

    ended: Span | None = None
    log_gone: Span | None = None
    started: Span | None = None


OfNode = Mapping[int, NodeTimes]
"""The times of each node, by its id."""


def merge_times(parts: Iterable[OfNode]) -> dict[int, NodeTimes]:
    """Return the times of all parts of a step, which are given in order.

    A node may end and start more than once: the first end and the last start count, between which it is not known to
    run. If its log was lost several times, the span covers all of them.
    """
    found: dict[int, NodeTimes] = {}
    for part in parts:
        for node, times in part.items():
            before = found.get(node, NodeTimes())
            found[node] = NodeTimes(
                ended=before.ended or times.ended,
                log_gone=_hull(before.log_gone, times.log_gone),
                started=times.started or before.started,
            )
    return found


def _hull(one: Span | None, other: Span | None) -> Span | None:
    if one is None or other is None:
        return one or other
    return Span(first_ns=min(one.first_ns, other.first_ns), last_ns=max(one.last_ns, other.last_ns))


class NodeEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Kafka itself ended the process of a node, by a fault that its log calls fatal; it was seen at `at_ns`."""

    node: str
    at_ns: int
    fault: str

    @property
    def id(self) -> int | None:
        """The id in the name of the node, such as `broker-1`."""
        number = self.node.rpartition("-")[2]
        return int(number) if number.isdecimal() else None
