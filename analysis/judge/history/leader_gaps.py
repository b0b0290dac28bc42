"""Measures how long each partition had no leader, from the metadata timeline.

A partition is without a leader from the metadata record that took its leader away until the next
record that gives it one. Both times are the controller's, in whole milliseconds. A broker that is
dead and not fenced yet still counts as a leader here: what clients notice of it is in `ack_gaps`.

When it cannot tell: the metadata log has a gap or a damaged end, or its times go back.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.record.timeline import Timeline
from ebbtide.record.rows import PartitionState


class Spell(msgspec.Struct, frozen=True, kw_only=True):
    """A time without service; `is_open`: the record does not show its end."""

    from_ns: int
    to_ns: int
    is_open: bool = False

    @property
    def length_ns(self) -> int:
        """How long it lasted, or at least lasted if it is open."""
        return self.to_ns - self.from_ns


def why_leaders_unknown(timeline: Timeline) -> str | None:
    """Return why the timeline cannot say when a partition had a leader; None if it can."""
    if "partitions" in timeline.missing:
        return "the metadata timeline is missing (partitions.parquet)"
    if timeline.torn or timeline.gaps:
        return "the metadata log is not known to be whole (evidence.json)"
    return None


def leaderless_spells(timeline: Timeline, topic: str, partition: int) -> list[Spell] | str:
    """Return the spells without a leader of one partition, or why they are not known.

    The last spell is open if no later record ends it. Its end is then the time of the last record
    of the whole timeline.
    """
    why = why_leaders_unknown(timeline)
    if why is not None:
        return why
    states = timeline.states(topic, partition)
    if not states:
        return "the metadata timeline does not have the partition"
    found: list[Spell] = []
    began: PartitionState | None = None
    for before, state in zip((None, *states), states, strict=False):
        if before is not None and state.at_ns < before.at_ns:
            return "the controllers' clock went back"
        if before is not None and began is not None and state.follows_recreation(before):
            # Between its deletion and its creation the partition did not exist.
            found.append(Spell(from_ns=began.at_ns, to_ns=before.at_ns, is_open=True))
            began = None
        if state.leader < 0:
            began = began or state
        elif began is not None:
            found.append(Spell(from_ns=began.at_ns, to_ns=state.at_ns))
            began = None
    if began is not None:
        found.append(Spell(from_ns=began.at_ns, to_ns=max(_last_ns(timeline), began.at_ns), is_open=True))
    return found


def _last_ns(timeline: Timeline) -> int:
    """Return the newest time in the timeline."""
    tables: Sequence[Sequence[PartitionState] | Sequence[object]] = (
        *timeline.partitions.values(),
        timeline.brokers,
        timeline.configs,
    )
    return max((getattr(rows[-1], "at_ns", 0) for rows in tables if rows), default=0)
