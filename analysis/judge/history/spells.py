"""Measures how long each partition was without service: without a leader, without an ack, and without any broker.

**Without a leader**, from the metadata timeline: from the record that took the leader away until the next record that
gives one. Both times are the controller's, in whole milliseconds. A broker that is dead and not fenced yet still counts
as a leader: what clients notice of it is the other two. It is not known where the metadata log has a gap or a damaged
end, or its times go back.

**Without an ack**, from sends: between two successive acks of acks=all records of one partition, by any producer. A
spell begins at the first of the two acks if a record was waiting then, otherwise when the next record was handed over.
So a slow producer makes no spell, and neither does a producer that is done. A record waits from `sent_ns` until its
answer at `done_ns`, whatever the answer. If it has no answer, only its sending counts. The first spell begins with the
first record. The last spell is open if records were handed over or answered after the last ack, none with an ack: then
nothing shows how long the service was missing. This is exact: records are folded into cells of `CELL_NS` by the time of
their answers, of which the first and the last ack remain. A spell longer than a cell has its two acks in different
cells, so both remain. Spells of at most a cell are not told apart, and a record that failed in the same cell as the ack
before the spell does not count as waiting.

**Without any broker**, from sends, polls and watermarks. A service is an answer to list_offsets, a record that a poll
returned, or an ack. A question is a send that waits for an ack, or a list_offsets request. A spell lies between two
successive services, and covers only the time in which a question waited. So neither the sampler's interval nor a
producer that is done makes a spell:

    served       |                                  |
    questions        [a send that failed]  [a send..that is acked]
    spells           [------------------]  [--------]

A send may wait though the leader answers others, for example while the ISR is below min ISR. Then only the sampler
shows that the leader serves, and the time between two of its questions shows nothing. So a spell counts from `LEAST_NS`
on, and from `_SAMPLES` times the usual interval of the sampler on.

What lies before the first service is no spell, because clients only start then. The last spell is open if questions
waited after the last service. Nobody records questions of the sampler that stay without an answer, so a record in which
only the sampler asked has no spell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from statistics import median

import msgspec

from analysis.judge.history.service_cells import CELL_NS, FoldedCells, ServiceCell
from analysis.record.timeline import Timeline, TopicPartition
from ebbtide.record.manifest import ACKS
from ebbtide.record.rows import PartitionState

LEAST_NS = 2_000_000_000
"""Shorter spells without any broker are left out: the sampler asks ten times a second, but a silent broker holds it up
for 1.6 s."""
_SAMPLES = 4
_CLOCK_WENT_BACK = "the clients' clock went back"


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
        found.append(Spell(from_ns=began.at_ns, to_ns=max(timeline.newest_ns, began.at_ns), is_open=True))
    return found


def ack_spells(folded: FoldedCells) -> Mapping[TopicPartition, list[Spell] | str]:
    """Return the spells without an ack of each partition that acks=all records were sent to.

    A text instead says why they are not known. Of all spells of at most `CELL_NS`, there is only
    the first.
    """
    return {place: _without_acks(cells) for place, cells in folded.partitions(lambda kind: kind == ACKS["all"])}


def _without_acks(cells: Sequence[ServiceCell]) -> list[Spell] | str:
    if any(one.is_back for one in cells):
        return _CLOCK_WENT_BACK
    # The first sending of all records that were answered in this cell or later.
    waiting = list(accumulate(reversed([one.asked for one in cells]), min))[::-1]
    found: list[Spell] = []
    last_ack, begin = None, 0
    for at, cell in enumerate(cells):
        if cell.first is None or cell.last is None:
            continue
        from_ns = waiting[begin] if last_ack is None else max(last_ack, waiting[begin])
        if cell.first - from_ns > CELL_NS or not found:
            found.append(Spell(from_ns=min(from_ns, cell.first), to_ns=cell.first))
        last_ack, begin = cell.last, at + 1
    end = max(one.answered for one in cells)
    if last_ack is None:
        found.append(Spell(from_ns=waiting[0], to_ns=end, is_open=True))
    elif end > last_ack:
        from_ns = max(last_ack, waiting[begin]) if begin < len(cells) else last_ack
        found.append(Spell(from_ns=from_ns, to_ns=end, is_open=True))
    return found


def unserved_spells(folded: FoldedCells) -> Mapping[TopicPartition, list[Spell] | str]:
    """Return the spells in which no broker served each partition that clients asked for, or why they are not known.

    Spells of at most `LEAST_NS` are left out.
    """
    # No broker answers a send with acks=0.
    return {place: _unserved(cells) for place, cells in folded.partitions(lambda kind: kind != 0)}


def _unserved(cells: Sequence[ServiceCell]) -> list[Spell] | str:
    if any(one.is_back for one in cells):
        return _CLOCK_WENT_BACK
    sampled = [one.answered for one in cells if one.is_sampled]
    if len(sampled) < 2:
        return "nobody asked for its HW all the time"
    least_ns = max(LEAST_NS, _SAMPLES * median(later - one for one, later in pairwise(sampled)))
    # The first question of all that were answered in this cell or later.
    asked = list(accumulate(reversed([one.asked for one in cells]), min))[::-1]
    found: list[Spell] = []
    last, begin = None, 0
    for at, cell in enumerate(cells):
        if cell.first is None or cell.last is None:
            continue
        if last is not None:
            waited = [(one.asked, one.answered) for one in cells[begin:at]] + [(asked[at], cell.first)]
            found += _waits(waited, last, cell.first)
        last, begin = cell.last, at + 1
    # Some answers of the last cell with a service may have come after it.
    left = [(one.asked, one.answered) for one in cells[max(begin - 1, 0) :]]
    waits = _waits(left, min(asked) if last is None else last, max(one.answered for one in cells))
    found += [msgspec.structs.replace(one, is_open=one is waits[-1]) for one in waits]
    return [one for one in found if one.length_ns > least_ns]


def _waits(waited: Sequence[tuple[int, int]], from_ns: int, to_ns: int) -> list[Spell]:
    """Return the times between two times in which a question waited."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted((max(begin, from_ns), min(end, to_ns)) for begin, end in waited):
        if begin >= end:
            continue
        if merged and begin <= merged[-1][1] + CELL_NS:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return [Spell(from_ns=begin, to_ns=end) for begin, end in merged]
