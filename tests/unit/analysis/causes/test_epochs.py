"""What rows, HWs and logs say of a leader epoch."""

from __future__ import annotations

from typing import Any

import causes_rows as row
import pytest
from causes_by_hand import OFFSET, OTHER, VALUE, disk, down, event, ns, partition, rows, rules, sends, state, watermarks

from analysis.causes.evidence import NEVER, UNKNOWN, DiskLoss, ReadRows
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


# Which leaders may have appended a record whose leader epoch nobody read.


SEEN = rows((OTHER, OFFSET + 10, 1))
"""A row of the second epoch, so that its leader did lead."""


def deposed(
    acks: int, sent_s: float, min_isr: int, *, isr: tuple[int, ...] = (2, 3), place: int = 1, **fields: Any
) -> EvidentPartition:
    """Return a record that was sent after broker 2 was elected; `isr` is its ISR from 7 s on, if 3 joined or not.

    `place` 2: the record before the election is missing, which may have shrunk the ISR.
    """
    return partition(
        row.ALL,
        state(place, 5, 2, 1, (2,)),
        state(place + 1, 7, 2, 1, isr),
        rules=(rules(min_isr=min_isr),),
        sends=sends((VALUE, OFFSET, acks, sent_s, sent_s + 0.1)),
        **fields,
    )


@pytest.mark.parametrize(
    ("found", "writers"),
    [
        # A deposed leader does not know it, and appends what is sent with acks=1.
        (deposed(1, 8, 2), [0, 1]),
        # With acks=all, min ISR replicas must still follow it.
        (deposed(-1, 6, 2, final=SEEN, place=2), [0, 1]),
        (deposed(-1, 8, 2, final=SEEN), [1]),
        (deposed(-1, 6, 3, final=SEEN), [1]),
        # If broker 2 never learned of its election, it may follow the leader of before.
        (deposed(-1, 8, 3, isr=(2,)), [0, 1]),
        (deposed(-1, 8, 3, isr=(2,), final=SEEN), [1]),
        (deposed(-1, 8, 1, final=SEEN, place=2), [0, 1]),
        # Its ISR had broker 2, and it cannot shrink it any more.
        (deposed(-1, 6, 2, final=SEEN), [1]),
    ],
)
def test_a_deposed_leader_acks_what_enough_followers_get(found: EvidentPartition, writers: list[int]) -> None:
    assert found.may_have_written[0].nonzero()[0].tolist() == writers


@pytest.mark.parametrize(("begins_at", "writers"), [(OFFSET + 1, [0]), (OFFSET, []), (OFFSET - 1, [])])
def test_a_leader_that_stays_over_an_epoch_had_not_written_what_stands_in_the_next(
    begins_at: int, writers: list[int]
) -> None:
    # Sent long before the next epoch, so that only the first leadership may have appended it.
    states = (row.ALL, state(1, 9, 1, 1, (1,)))
    found = partition(*states, sends=sends((VALUE, OFFSET, 1, 2, 2.1)), final=rows((OTHER, begins_at, 1)))
    assert found.may_have_written[0].nonzero()[0].tolist() == writers


@pytest.mark.parametrize(("died_s", "writers"), [(7, [0]), (9, [0, 2])])
def test_a_broker_that_had_died_before_its_election_wrote_nothing(died_s: int, writers: list[int]) -> None:
    found = row.led_by_name(
        downs=(down(2, died_s),),
        broker_events=(event(1, 0.5, 2, "registered"),),
        sends=sends((VALUE, OFFSET, 1, 6.9, 8.1)),
        final=rows(),
    )
    assert [found.elections.all[place] for place in found.may_have_written[0].nonzero()[0]] == writers


def elected_again(lost: DiskLoss, since: int = -1, between: int | None = None, **fields: Any) -> EvidentPartition:
    """Return a partition of broker 1 whose leader is `since` from 4 s on, and 1 again in state 3.

    `between`: who leads from 8 s on; else a change of the ISR is there.
    """
    states = (
        state(0, 1, 1, 0, (1,), **fields),
        state(1, 4, since, 1, (1,)),
        state(2, 8, since if between is None else between, 1 if between is None else 2, (1, 2)),
        state(3, 9, 1, 3, (1,)),
    )
    return partition(*states, disks=(lost,), slack_ns=ns(0.1))


WIPED = disk(1, 6, before=10, after=OFFSET)


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (elected_again(WIPED), True),
        (elected_again(WIPED, since=1, between=-1), True),
        # The process ended with the loss, so that it led until the controller saw it.
        (elected_again(disk(1, 2, before=10, after=0)), True),
        (elected_again(WIPED, partition_epoch=-7), True),
        (elected_again(disk(1, 6, before=10, after=OFFSET + 1)), False),
        (elected_again(disk(1, 6)), False),
        (elected_again(disk(2, 6, before=10, after=0)), False),
        (elected_again(disk(1, 8.95, before=10, after=0)), False),
        (elected_again(disk(1, 0.5, before=10, after=0)), False),
        (elected_again(WIPED, since=2, between=-1), False),
        (elected_again(WIPED, between=2), False),
        (elected_again(WIPED, between=1), False),
    ],
)
def test_a_wiped_disk_shows_that_the_next_leader_lacked_a_record_if_nobody_led_since(
    found: EvidentPartition, shown: bool
) -> None:
    assert found.has_lost_on_disk(3, OFFSET) == shown


def test_a_wiped_disk_shows_nothing_where_a_state_after_it_is_missing() -> None:
    states = state(0, 1, 1, 0, (1,)), state(1, 4, -1, 1, (1,)), state(3, 9, 1, 3, (1,))
    assert not partition(*states, disks=(WIPED,)).has_lost_on_disk(2, OFFSET)
