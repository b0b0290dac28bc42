"""The sends of the records that a story loses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from usual_rows import usual_row

from analysis.reconcile.model import LostRange

IN_NO_LOG = 1_000
"""The leader epoch of records that no log of a story has."""


def value_of(offset: int, epoch: int) -> int:
    """The value of the record that a leader epoch has at an offset: logs and lost records agree on it."""
    return epoch * 1_000_000 + offset


def lost_sends(
    all_lost: Sequence[LostRange],
    made: Mapping[tuple[int, int, int], tuple[int, int]],
    sends: Sequence[Mapping[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Yield the acked sends of the lost records that the story has not.

    `made` are their leader epoch and when they were sent, by first offset, last offset and acks.
    """
    own = {(row.get("offset"), row.get("acks")) for row in sends if row.get("status") == "acked"}
    for lost in all_lost:
        usual = IN_NO_LOG, lost.first_done_ns
        epoch, sent_ns = made.get((lost.first_offset, lost.last_offset, lost.acks), usual)
        for offset in range(lost.first_offset, lost.last_offset + 1):
            if (offset, lost.acks) not in own:
                yield usual_row(
                    "sends",
                    topic=lost.topic,
                    partition=lost.partition,
                    value=value_of(offset, epoch),
                    sequence=offset,
                    acks=lost.acks,
                    offset=offset,
                    sent_ns=sent_ns,
                    done_ns=lost.last_done_ns,
                )
