"""Which leaders may have appended a record whose leader epoch nobody read."""

from __future__ import annotations

from typing import Any

import causes_rows as row
import pytest
from causes_by_hand import OFFSET, OTHER, VALUE, down, event, partition, rows, rules, sends, state

from analysis.causes.partition import EvidentPartition

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
