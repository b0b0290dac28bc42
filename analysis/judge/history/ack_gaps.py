"""Measures how long acks=all producers of a partition waited for an ack, from sends.

The rule: a spell without an ack lies between two successive acks of acks=all records of one
partition, by any producer. It begins at the first of the two acks if a record was waiting then,
otherwise when the next record was handed over. So a slow producer makes no spell, and neither does
a producer that is done. A record waits from `sent_ns` until its answer at `done_ns`, whatever the
answer. If it has no answer, only its sending counts.

The first spell begins with the first record. The last spell is open if records were handed over or
answered after the last ack, none with an ack: then nothing shows how long the service was missing.

Why it is exact: records are folded into cells of `CELL_NS` by the time of their answers. Of each
cell the first and the last ack remain. A spell longer than a cell has its two acks in different
cells, so both remain. Spells of at most a cell are not told apart, and a record that failed in the
same cell as the ack before the spell does not count as waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from analysis.judge.history.leader_gaps import Spell
from analysis.judge.history.service_cells import CELL_NS, ServiceCell, ServiceCells
from analysis.record.record import Record
from analysis.record.timeline import TopicPartition
from ebbtide.record.manifest import ACKS


def ack_spells(record: Record) -> Mapping[TopicPartition, list[Spell] | str]:
    """Return the spells without an ack of each partition that acks=all records were sent to.

    A text instead says why they are not known. Of all spells of at most `CELL_NS`, there is only
    the first. Raises `UsageError` when a file is damaged.
    """
    return {
        place: _spells(cells) for place, cells in record.seen(ServiceCells).partitions(lambda kind: kind == ACKS["all"])
    }


def _spells(cells: Sequence[ServiceCell]) -> list[Spell] | str:
    if any(one.is_back for one in cells):
        return "the clients' clock went back"
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
