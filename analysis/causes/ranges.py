"""Asks once for all records that share their fate.

Two records share it if no cut lies between them: no offset and no time at which an answer may change. So the work grows
with the ranges between cuts, and not with the records.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.causes.answer import CauseAnswer, answer
from analysis.causes.history import Ints, column
from analysis.causes.partition import EvidentPartition, Question
from analysis.causes.writers import Flags


def answers_of_sends(
    partition: EvidentPartition, lost: Ints, *, committed: bool | None = None
) -> tuple[list[CauseAnswer], Ints]:
    """Return the distinct answers for these sends, and for each send the index of its answer.

    `committed`: whether the records were committed, if that is known otherwise.
    """
    asked, which = questions_of_sends(partition, lost, committed=committed)
    return [answer(partition, one) for one in asked], which


def questions_of_sends(
    partition: EvidentPartition, lost: Ints, *, committed: bool | None = None
) -> tuple[list[Question], Ints]:
    """Return one question for all sends that share their fate, and for each send the index of its question."""
    sends, epochs = partition.history.sends, partition.epochs
    if not len(lost):
        return [], column()
    offset, sent, done = sends.offset[lost], sends.sent_ns[lost], sends.done_ns[lost]
    epoch, read, all_acks = epochs.send_epoch[lost], epochs.send_read_ns[lost], sends.acks[lost] == -1
    writers = partition.writers.may_have_written[lost]
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
        )
        for at in first.tolist()
    ]
    return found, column(inverse).reshape(-1)


def _rank(cuts: Ints, times: Ints) -> Ints:
    """Return where times lie between cuts; a time on a cut has a place of its own."""
    return np.searchsorted(cuts, times, side="left") + np.searchsorted(cuts, times, side="right")


def _packed(writers: Flags) -> Sequence[Ints]:
    """Return the flags of each row as few integers."""
    columns = [writers[:, start : start + 62] for start in range(0, writers.shape[1], 62)]
    return [one.astype(np.int64) @ (column(1) << np.arange(one.shape[1], dtype=np.int64)) for one in columns]
