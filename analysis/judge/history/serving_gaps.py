"""Measures how long no broker served a partition that clients asked for, from sends, polls and watermarks.

A service is an answer to list_offsets, a record that a poll returned, or an ack. A question is a send that waits for an
ack, or a list_offsets request. The rule: a spell lies between two successive services, and covers only the time in
which a question waited. So neither the sampler's interval nor a producer that is done makes a spell:

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

from analysis.judge.history.leader_gaps import Spell
from analysis.judge.history.service_cells import CELL_NS, ServiceCell, ServiceCells
from analysis.record.record import Record
from analysis.record.timeline import TopicPartition

LEAST_NS = 2_000_000_000
"""Shorter spells are left out: the sampler asks ten times a second, but a silent broker holds it up for 1.6 s."""
_SAMPLES = 4


def unserved_spells(record: Record) -> Mapping[TopicPartition, list[Spell] | str]:
    """Return the spells in which no broker served each partition that clients asked for, or why they are not known.

    Spells of at most `LEAST_NS` are left out. Raises `UsageError` when a file is damaged.
    """
    # No broker answers a send with acks=0.
    return {place: _spells(cells) for place, cells in record.seen(ServiceCells).partitions(lambda kind: kind != 0)}


def _spells(cells: Sequence[ServiceCell]) -> list[Spell] | str:
    if any(one.is_back for one in cells):
        return "the clients' clock went back"
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
