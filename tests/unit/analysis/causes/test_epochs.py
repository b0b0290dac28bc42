"""What rows, HWs and logs say of a leader epoch."""

from __future__ import annotations

import causes_rows as row
import pytest
from causes_by_hand import OFFSET, OTHER, VALUE, ns, partition, rows, state, watermarks

from analysis.causes.evidence import NEVER, UNKNOWN, ReadRows
from analysis.causes.partition import EvidentPartition

FIRST = (2, 1, 2, 6.0, 6.1)
"""The first HW of broker 2 under epoch 1, which may be older."""


def second_epoch(*found: tuple[int, int, int, float, float], log: ReadRows | None = None) -> EvidentPartition:
    """Return a partition of two epochs, with HWs, and with the log of broker 3."""
    replicas = {} if log is None else {3: log}
    elected = state(1, 5, 2, 1, (2, 3))
    return partition(row.ALL, elected, watermarks=watermarks(*found), replicas=replicas)


LOG = rows((1, 4, 0), (2, 5, 0), (3, 8, 1))
"""It ended at 6 when epoch 1 began, or later: a row may be missing."""


@pytest.mark.parametrize(
    ("found", "start_max"),
    [
        (second_epoch(), NEVER),
        (second_epoch(FIRST), NEVER),
        (second_epoch(FIRST, (2, 1, 7, 6.1, 6.3)), NEVER),
        (second_epoch(FIRST, (2, 1, 7, 6.2, 6.3)), 7),
        (second_epoch(log=LOG), 8),
        # An HW is at least the start, so it is above what the log had before.
        (second_epoch(FIRST, (2, 1, 7, 6.2, 6.3), log=LOG), 7),
        (second_epoch(FIRST, (2, 1, 6, 6.2, 6.3), log=LOG), 6),
        (second_epoch(FIRST, (2, 1, 5, 6.2, 6.3), log=LOG), 8),
        # Rows of an epoch that nobody knows, or of a log without this epoch, do not count as from before.
        (second_epoch(FIRST, (2, 1, 5, 6.2, 6.3), log=rows((1, 4, 0), (2, 5, UNKNOWN), (3, 8, 1))), 5),
        (second_epoch(FIRST, (2, 1, 5, 6.2, 6.3), log=rows((1, 4, 0), (2, 5, 0))), 5),
    ],
)
def test_an_epoch_begins_no_later_than_its_first_row_and_its_hws(found: EvidentPartition, start_max: int) -> None:
    assert found.epochs.of[1].start_max == start_max


def test_what_a_consumer_read_and_what_an_hw_covered_was_committed_under_that_epoch() -> None:
    found = partition(
        row.ALL,
        state(1, 5, 2, 1, (2, 3)),
        polls=rows((1, OFFSET, 0), at_s=3),
        watermarks=watermarks((2, 1, OFFSET + 3, 6, 6.1)),
    )
    committed = [found.epochs.of[at].committed for at in (0, 1)]
    assert [committed[0].by(offset) for offset in (OFFSET, OFFSET + 1)] == [ns(3), NEVER]
    assert [committed[1].by(offset) for offset in (OFFSET + 2, OFFSET + 3)] == [ns(6.1), NEVER]


def logged(*found: tuple[int, int, int], epoch: int = 1) -> EvidentPartition:
    """Return a partition whose log at the end has these rows; broker 2 was elected under this epoch."""
    return partition(row.ALL, state(1, 5, 2, epoch, (2, 3)), state(2, 7, 3, 2, (3,)), final=rows(*found))


NEXT = (9, OFFSET + 4, 1)


@pytest.mark.parametrize(
    ("found", "had_value", "had_any"),
    [
        (logged((OTHER, OFFSET, 1)), False, False),
        (logged((VALUE, OFFSET, 0), NEXT), True, True),
        # A row of the writer's epoch at the offset, or behind it, shows that the log had all before.
        (logged((OTHER, OFFSET, 0), NEXT), False, True),
        (logged((OTHER, OFFSET + 1, 0), NEXT), False, True),
        (logged((OTHER, OFFSET - 1, 0), NEXT), False, None),
        # The record of a later epoch stood there.
        (partition(
            row.ALL,
            state(1, 4, 3, 1, (2, 3)),
            state(2, 5, 2, 2, (2,)),
            final=rows((OTHER, OFFSET, 1), (9, OFFSET + 4, 2)),
        ), False, False),
        # A log without this epoch says nothing of its leader.
        (logged((VALUE, OFFSET, 0)), None, None),
        # Nor does an epoch that was used twice.
        (logged((VALUE, OFFSET, 0), (9, OFFSET + 4, 2), epoch=2), None, None),
    ],
)  # fmt: skip
def test_the_log_of_a_leader_shows_whether_it_had_a_record(
    found: EvidentPartition, *, had_value: bool | None, had_any: bool | None
) -> None:
    at = 2 if found.evidence.states[2].leader == 2 else 1
    assert found.epochs.had(at, VALUE, OFFSET, writer=0) is had_value
    assert found.epochs.had(at, None, OFFSET, writer=0) is had_any
