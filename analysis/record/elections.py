"""Finds the elections in the metadata log, and the road of each to leadership.

An election is a record that gives a partition a leader under a new leader epoch. The road follows
from the state before it, because the controller elects from that state (KIP-966, Leader election):
- from the ISR,
- from the ELR while the ISR is empty,
- the last known leader while both are empty,
- any other broker uncleanly.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Literal

import msgspec

from analysis.record.timeline import Timeline
from ebbtide.record.rows import PartitionState
from ebbtide.record.verdict import RecordedElection

Road = Literal["isr", "elr", "last-known-leader", "reassignment", "unclean"]


class ElectionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One election: the state before it, the state that it made, and the road."""

    before: PartitionState
    after: PartitionState
    road: Road

    @property
    def leader(self) -> int:
        """The broker that was elected."""
        return self.after.leader

    @property
    def epoch(self) -> int:
        """The leader epoch that the election began."""
        return self.after.leader_epoch

    @property
    def changes_leader(self) -> bool:
        """Whether another broker or none led before.

        Up to Kafka 3.5 an ISR change raises the epoch too, without a new leader.
        """
        return self.before.leader != self.after.leader

    @property
    def is_from_outside(self) -> bool:
        """Whether the leader came from outside ISR and ELR."""
        return self.road in ("unclean", "last-known-leader")

    @property
    def removes_isr(self) -> bool:
        """Whether a reassignment was cancelled whose new replicas were the whole ISR.

        Kafka calls that an unclean election, and makes it only where the config allows those. The leader does not
        begin RECOVERING.
        """
        return bool(self.before.isr) and set(self.before.isr) <= set(self.before.adding) - set(self.after.replicas)

    @property
    def as_recorded(self) -> RecordedElection:
        """The election as verdict.json names it."""
        return RecordedElection(
            metadata_offset=self.after.metadata_offset, leader=self.after.leader, leader_epoch=self.after.leader_epoch
        )


def road_of(before: PartitionState, after: PartitionState, registered: Collection[int] | None) -> Road:
    """Return the road by which `after.leader` was elected from the state `before`.

    `registered` are the brokers that registered in the same batch of the metadata log; None: not known.

    A leader in the ISR or ELR whose election began RECOVERING counts as unclean, because the
    controller itself says so. One record may fence the last ISR member and elect from the ELR, so
    the ISR before it need not be empty. A reassignment that completes elects from the ISR which the
    same record brings.

    The last known leader is elected RECOVERING where ISR and ELR are empty, or become empty by the
    same record. When the last ELR member returns from an unclean shutdown, it leaves the ELR, and
    that record elects the last known leader if that broker is alive. Kafka 4.0 elects the last
    known leader even by its own return (KAFKA-19522). An unclean election that does not wait for a
    fenced ELR member empties the ELR as well, so the registration of that member decides.
    """
    leader = after.leader
    began_recovering = after.recovering and not before.recovering
    members = {*before.isr, *before.elr}
    others = members - {leader}
    has_returned = registered is None or others <= {*registered}
    returned = began_recovering and not after.elr and len(others) == 1 and leader not in members and has_returned
    if leader in before.last_known_elr and (not others or returned) and (began_recovering or leader not in members):
        return "last-known-leader"
    if leader in before.isr and not began_recovering:
        return "isr"
    if leader in before.elr and not began_recovering:
        return "elr"
    if not began_recovering and after.completes_reassignment(before) and leader in after.isr:
        return "reassignment"
    return "unclean"


def elections_of(timeline: Timeline, topic: str, partition: int) -> tuple[ElectionEvent, ...]:
    """Return the elections of one partition in order.

    The leader that the partition was created with is not an election.
    """
    states = timeline.states(topic, partition)
    return tuple(
        ElectionEvent(before=before, after=after, road=road_of(before, after, timeline.registered_with(after)))
        for before, after in pairwise(states)
        if after.leader >= 0 and after.leader_epoch != before.leader_epoch and not after.follows_recreation(before)
    )


def all_elections(timeline: Timeline) -> tuple[ElectionEvent, ...]:
    """Return the elections of every partition."""
    return tuple(one for topic, partition in timeline.partitions for one in elections_of(timeline, topic, partition))
