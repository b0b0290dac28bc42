"""Asks once for all records that share their fate.

Two records share it if no cut lies between them: no offset and no time at which an answer may change. So the work grows
with the ranges between cuts, and not with the records.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from analysis.causes.answer import CauseAnswer, answer
from analysis.causes.evidence import NEVER, UNKNOWN, Ints, column
from analysis.causes.partition import EvidentPartition, Question


def answers_of_sends(partition: EvidentPartition, lost: Ints, *, committed: bool) -> tuple[list[CauseAnswer], Ints]:
    """Return the distinct answers for these sends, and for each send the index of its answer.

    `committed`: whether anything shows that the records were committed.
    """
    asked, which = questions_of_sends(partition, lost, committed=committed)
    return [answer(partition, one) for one in asked], which


def questions_of_sends(partition: EvidentPartition, lost: Ints, *, committed: bool) -> tuple[list[Question], Ints]:
    """Return one question for all sends that share their fate, and for each send the index of its question."""
    sends, epochs = partition.evidence.sends, partition.epochs
    if not len(lost):
        return [], column()
    offset, sent, done = sends.offset[lost], sends.sent_ns[lost], sends.done_ns[lost]
    epoch, read, all_acks = epochs.send_epoch[lost], epochs.send_read_ns[lost], sends.acks[lost] == -1
    writers = partition.may_have_written[lost]
    time_cuts = _time_cuts(partition)
    # A time on a cut has a place of its own.
    places = [
        np.searchsorted(time_cuts, at) + np.searchsorted(time_cuts, at, side="right") for at in (sent, done, read)
    ]
    offset_place = np.searchsorted(column(offset_cuts(partition)), offset, side="right")
    keys = np.column_stack((offset_place, *places, all_acks, epoch, np.packbits(writers, axis=1)))
    _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    found = [
        Question(
            offset=int(offset[at]),
            value=int(sends.value[lost][at]),
            writers=tuple(partition.elections.all[one] for one in np.flatnonzero(writers[at]).tolist()),
            acks_all=bool(all_acks[at]),
            sent_ns=int(sent[at]),
            done_ns=int(done[at]),
            read_ns=int(read[at]),
            committed=committed,
            is_epoch_known=bool(epoch[at] != UNKNOWN),
        )
        for at in first.tolist()
    ]
    return found, column(which).reshape(-1)


def offset_cuts(partition: EvidentPartition) -> list[int]:
    """Return the offsets at which an answer may change: ends of logs, starts of epochs, HWs, what was committed."""
    found = {end for disk in partition.evidence.disks if disk.ends for end in (disk.ends.before, disk.ends.after)}
    times = np.unique([moment.at_ns - partition.liveness.slack for moment in partition.moments])
    for evidence in partition.epochs.of.values():
        found |= {evidence.start_max, *(last + 1 for last in evidence.committed.offsets[-1:])}
        places = np.searchsorted(times, column([*evidence.committed.times, NEVER]))
        found |= {evidence.committed.offsets[one] + 1 for one in np.flatnonzero(np.diff(places)).tolist()}
    return sorted(found)


def _time_cuts(partition: EvidentPartition) -> Ints:
    """Return the times at which an answer may change; two clocks may differ by the slack."""
    evidence, liveness = partition.evidence, partition.liveness
    states = [state.at_ns for state in evidence.states]
    times = {one.at_ns for one in partition.moments} | {*states}
    times |= {NEVER, *(disk.within.last_ns for disk in evidence.disks), *(rule.at_ns for rule in evidence.rules)}
    pairs = combinations(partition.elections.brokers, 2)
    times |= {first for pair in pairs for first, _ in liveness.silences(*pair)}
    return column(sorted({time + shift for time in times for shift in (-liveness.slack, 0, liveness.slack)}))
