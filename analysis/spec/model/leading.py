"""The leader's decisions as tables over small numbers.

A decision of a leader depends on log lengths, set sizes and min.insync.replicas only. In a small
configuration these are few, so each question is put to the variant's own `LeaderRules` once.
"""

from __future__ import annotations

from functools import cache

from analysis.spec.leader import Follower, Leader, LeaderRules
from analysis.spec.partition import NO_ERROR


class LeaderTables:
    """The tables of one variant. All lengths are numbers of records."""

    def __init__(self, rules: LeaderRules) -> None:
        self._rules = rules
        self.admits = cache(self._admits)
        self.hw_moves = cache(self._hw_moves)
        self.tells_acked = cache(self._reports_acked)
        self.joins = cache(self._joins)
        self.falls_out = cache(self._falls_out)

    def _leader(self, isr_size: int, maximal_size: int, replica_count: int, leo: int, hw: int) -> Leader:
        followers = tuple(Follower(broker, leo, fetch_epoch=1, metadata_epoch=1) for broker in range(1, replica_count))
        return Leader(
            broker=0,
            replicas=tuple(range(replica_count)),
            isr=frozenset(range(isr_size)),
            maximal=frozenset(range(maximal_size)),
            followers=followers,
            leo=leo,
            hw=hw,
            pending="EXPAND" if maximal_size > isr_size else "",
        )

    def _admits(self, isr_size: int, replica_count: int, min_isr: int) -> bool:
        """Return whether an acks=all record is appended."""
        leader = self._leader(isr_size, isr_size, replica_count, 0, 0)
        return self._rules.append(leader, min_isr, -1).error == NO_ERROR

    def _hw_moves(self, isr_size: int, maximal_size: int, replica_count: int, min_isr: int) -> bool:
        """Return whether the HW may pass a record that the whole maximal ISR has."""
        leader = self._leader(isr_size, maximal_size, replica_count, 1, 0)
        return self._rules.advance_hw(leader, min_isr).hw == 1

    def _reports_acked(self, isr_size: int, maximal_size: int, replica_count: int, min_isr: int) -> bool:
        """Return whether the producer of an acks=all record below the HW receives its ack."""
        step = self._rules.acked(self._leader(isr_size, maximal_size, replica_count, 1, 1), min_isr, 1)
        return step.done and step.error == NO_ERROR

    def _joins(self, follower: int, hw: int, epoch_start: int, leo: int) -> bool:
        """Return whether a follower that fetches from `follower` is proposed for the ISR."""
        leader = self._leader(1, 1, 2, leo, hw)._replace(
            epoch_start=epoch_start, followers=(Follower(1, 0, fetch_epoch=1, metadata_epoch=1),)
        )
        return self._rules.fetch(leader, 1, 1, follower, 1, 1).proposed is not None

    def _falls_out(self, follower: int, leo: int) -> bool:
        """Return whether an ISR member at `follower` for too long is proposed to leave."""
        leader = self._leader(2, 2, 2, leo, 0)._replace(
            followers=(Follower(1, follower, caught_up=False, fetch_epoch=1, metadata_epoch=1),)
        )
        return self._rules.maybe_shrink(leader, 1).proposed is not None
