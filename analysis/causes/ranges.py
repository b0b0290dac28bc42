"""Asks once for all records that share their fate.

Two records share it if no cut lies between them: no offset and no time at which an answer may change. So the work grows
with the ranges between cuts, and not with the records.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.causes.answer import CauseAnswer, answer
from analysis.causes.history import NEVER, UNKNOWN, Ints, column
from analysis.causes.partition import EvidentPartition, Question

Flags = npt.NDArray[np.bool_]


def lost_sends(partition: EvidentPartition) -> Ints:
    """Return the indexes of the sends whose value the final log lacks."""
    return np.flatnonzero(~np.isin(partition.history.sends.value, partition.epochs.values))


def answers_of_sends(
    partition: EvidentPartition, lost: Ints, *, committed: bool | None = None
) -> tuple[list[CauseAnswer], Ints]:
    """Return the distinct answers for these sends, and for each send the index of its answer.

    `committed`: whether the records were committed, if that is known otherwise.
    """
    sends, ids = partition.history.sends, partition.epochs.ids
    if not len(lost):
        return [], column()
    offset, sent, done = sends.offset[lost], sends.sent_ns[lost], sends.done_ns[lost]
    epoch, read, all_acks = ids.send_epoch[lost], ids.send_read_ns[lost], sends.acks[lost] == -1
    writers = np.where(
        (epoch != UNKNOWN)[:, None],
        _of_epoch(partition, epoch),
        _possible_writers(partition, offset, sent, done),
    )
    offset_cuts, time_cuts = column(partition.offset_cuts), column(partition.time_cuts)
    keys = np.column_stack(
        (
            np.searchsorted(offset_cuts, offset, side="right"),
            *(_rank(time_cuts, times) for times in (sent, done, read)),
            all_acks,
            epoch,
            *_packed(writers),
        )
    )
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    found = []
    for at in first.tolist():
        asked = Question(
            offset=int(offset[at]),
            value=int(sends.value[lost][at]),
            writers=tuple(partition.elections.all[one] for one in np.flatnonzero(writers[at]).tolist()),
            acks_all=bool(all_acks[at]),
            sent_ns=int(sent[at]),
            done_ns=int(done[at]),
            read_ns=int(read[at]),
            committed=committed,
        )
        found.append(answer(partition, asked))
    return found, column(inverse).reshape(-1)


def _rank(cuts: Ints, times: Ints) -> Ints:
    """Return where times lie between cuts; a time on a cut has a place of its own."""
    return np.searchsorted(cuts, times, side="left") + np.searchsorted(cuts, times, side="right")


def _packed(writers: Flags) -> Sequence[Ints]:
    """Return the flags of each row as few integers."""
    columns = [writers[:, start : start + 62] for start in range(0, writers.shape[1], 62)]
    return [one.astype(np.int64) @ (column(1) << np.arange(one.shape[1], dtype=np.int64)) for one in columns]


def _of_epoch(partition: EvidentPartition, epoch: Ints) -> Flags:
    epochs = column([partition.elections.states[at].leader_epoch for at in partition.elections.all])
    return np.asarray(epoch[:, None] == epochs[None, :])


def _possible_writers(partition: EvidentPartition, offset: Ints, sent: Ints, done: Ints) -> Flags:
    """Return which elections may have put a leader in place that appended each record."""
    flags = [_may_have_written(partition, at, offset, sent, done) for at in partition.elections.all]
    return np.column_stack(flags) if flags else np.zeros((len(offset), 0), dtype=bool)


def _may_have_written(partition: EvidentPartition, at: int, offset: Ints, sent: Ints, done: Ints) -> Flags:
    elections, liveness, leaders = partition.elections, partition.liveness, partition.leaders
    state, slack = elections.states[at], liveness.slack
    if elections.of_epoch.get(state.leader_epoch) != at:
        return np.ones(len(offset), dtype=bool)
    evidence = partition.epochs.of[at]
    if leaders.led[at] is False:
        return np.zeros(len(offset), dtype=bool)
    # A leader's log only grows in a leadership: it was long enough already, or not yet.
    fits = offset >= partition.epochs.lower[at]
    later = [partition.epochs.of[one].start_max for one in elections.of_leadership(at) if one > at]
    fits &= offset < min([*later, NEVER])
    fits &= (done + slack >= state.at_ns) & (sent <= min(NEVER, leaders.acted_until[at] + slack))
    if evidence.final_first is not None:
        fits &= (offset >= evidence.final_first) & (offset > evidence.final_last)
    fits &= ~np.isin(offset, evidence.offsets)
    appended, highest_sent, there = evidence.appended
    if len(appended):
        # Under one leader, offsets have the order of appends.
        place = np.searchsorted(appended, offset)
        below, above = place > 0, place < len(appended)
        fits &= ~(below & (highest_sent[np.maximum(place - 1, 0)] > done + slack))
        fits &= ~(above & (there[np.minimum(place, len(appended) - 1)] + slack < sent))
    for one in partition.history.cluster.hindrances:
        if state.leader in one.from_clients:
            fits &= ~((sent >= one.from_ns + slack) & (done + slack <= one.until_ns))
    return fits
