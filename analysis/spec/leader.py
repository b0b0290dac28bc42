"""The leader's rules: HW, acks, and which ISR it asks the controller for.

`Leader` is what a leading broker knows: its committed ISR, the maximal ISR (with a pending
expansion) and the state of each follower. Each rule returns a `LeaderStep`. Offsets are log end
offsets: the next offset to be written. The rules follow Kafka's Partition; a committed ISR is one
that the controller has confirmed.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from analysis.spec.partition import NO_EPOCH, NO_ERROR, Brokers

Pending = Literal["", "EXPAND", "SHRINK"]

_REVERTS = frozenset({"INELIGIBLE_REPLICA", "OPERATION_NOT_ATTEMPTED"})
"""Errors that mean: the epochs were right and nothing was applied.

The leader goes back to the committed ISR.
"""
_STAYS_PENDING = frozenset(
    {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "FENCED_LEADER_EPOCH",
        "INVALID_UPDATE_VERSION",
        "INVALID_REQUEST",
        "NEW_LEADER_ELECTED",
    }
)
"""Errors after which the leader keeps its pending ISR.

It keeps it until the metadata log brings another one.
"""


class Follower(NamedTuple):
    """A follower as its leader knows it.

    `caught_up` is whether it was at the leader's LEO within replica.lag.time.max.ms. `fetch_epoch`
    is the broker epoch of its last Fetch: `None` before the first, `NO_EPOCH` when Fetch carries
    none. `metadata_epoch` is the epoch in the leader's metadata cache; `fenced` and `shutting_down`
    are from there too.
    """

    broker: int
    leo: int
    caught_up: bool = True
    fenced: bool = False
    shutting_down: bool = False
    fetch_epoch: int | None = None
    metadata_epoch: int = 0


class Leader(NamedTuple):
    """A leader's view of its partition.

    `isr` is the committed ISR, `maximal` the ISR that it replicates to. `epoch_start` is the first
    offset of its leader epoch. `broker_epoch` is its own, sent with an ISR.
    """

    broker: int
    replicas: tuple[int, ...]
    isr: Brokers
    maximal: Brokers
    followers: tuple[Follower, ...]
    leo: int = 0
    hw: int = 0
    epoch_start: int = 0
    pending: Pending = ""
    broker_epoch: int = NO_EPOCH


class LeaderStep(NamedTuple):
    """What the leader did: its new state, the client's answer, the ISR it asks for.

    `proposed` holds `(broker id, broker epoch)` as in `AlterPartition.isr_epochs`, or `None`
    without a request. `done` is whether an acks=all write is complete; `retried` is whether a
    failed request is sent again.
    """

    leader: Leader
    error: str = NO_ERROR
    proposed: tuple[tuple[int, int], ...] | None = None
    done: bool = False
    retried: bool = False


class LeaderRules:
    """The leader's half of a protocol variant.

    `min_isr` is the topic's configured min.insync.replicas.
    """

    checks_epochs: bool = False
    """KIP-903: whether Fetch carries broker epochs that are proposed and checked."""
    strict_min_isr: bool = False
    """KIP-966: whether the HW only advances at min ISR, capped by the replica count."""
    waits_for_ineligible: bool = True
    """Whether the HW waits for a caught-up follower that may not join the ISR."""
    refuses_fetch_of_old_epoch: bool = False
    """Whether a Fetch with a broker epoch older than the metadata's is refused.

    See KAFKA-15221.
    """

    def counted_min_isr(self, replica_count: int, min_isr: int) -> int:
        """Return the min ISR that counts for a partition with this many replicas."""
        return min(min_isr, replica_count) if self.strict_min_isr else min_isr

    def leader_min_isr(self, leader: Leader, min_isr: int) -> int:
        """Return the min ISR that the leader applies."""
        return self.counted_min_isr(len(leader.followers) + 1, min_isr)

    def is_under_min_isr(self, leader: Leader, min_isr: int) -> bool:
        """Return whether the committed ISR is below min ISR."""
        return len(leader.isr) < self.leader_min_isr(leader, min_isr)

    def may_join(self, follower: Follower) -> bool:
        """Return whether the leader lets a follower be in the ISR (KIP-841, KIP-903)."""
        if follower.fenced or follower.shutting_down:
            return False
        if not self.checks_epochs:
            return True
        return follower.fetch_epoch is not None and follower.fetch_epoch in (NO_EPOCH, follower.metadata_epoch)

    def advance_hw(self, leader: Leader, min_isr: int) -> Leader:
        """Advance the HW as far as the followers' progress allows.

        It is the lowest LEO of the leader, the maximal ISR, and every follower that is caught up
        and may join the ISR. Without waiting for those, a slow follower could never join.
        """
        if self.strict_min_isr and self.is_under_min_isr(leader, min_isr):
            return leader
        hw = leader.leo
        for follower in leader.followers:
            if follower.leo < hw and (
                follower.broker in leader.maximal
                or (follower.caught_up and (self.waits_for_ineligible or self.may_join(follower)))
            ):
                hw = follower.leo
        return leader._replace(hw=hw) if hw > leader.hw else leader

    def append(self, leader: Leader, min_isr: int, acks: int) -> LeaderStep:
        """Append one record; acks=all (-1) is admitted by the committed ISR."""
        if acks == -1 and self.is_under_min_isr(leader, min_isr):
            return LeaderStep(leader, "NOT_ENOUGH_REPLICAS")
        return LeaderStep(self.advance_hw(leader._replace(leo=leader.leo + 1), min_isr))

    def acked(self, leader: Leader, min_isr: int, offset: int) -> LeaderStep:
        """Return whether an acks=all write up to `offset` is complete, and its error.

        NOT_ENOUGH_REPLICAS_AFTER_APPEND depends on the maximal ISR; the record may well be
        committed.
        """
        if leader.hw < offset:
            return LeaderStep(leader)
        enough = len(leader.maximal) >= self.leader_min_isr(leader, min_isr)
        return LeaderStep(leader, NO_ERROR if enough else "NOT_ENOUGH_REPLICAS_AFTER_APPEND", done=True)

    def fetch(
        self, leader: Leader, min_isr: int, broker: int, offset: int, epoch: int, metadata_epoch: int | None = None
    ) -> LeaderStep:
        """Handle a follower's Fetch from `offset`; the follower may join the ISR.

        `epoch` is its broker epoch. `metadata_epoch` is what the leader's cache held when the
        request came, if that was not yet the follower's current epoch. A follower joins at max(HW,
        start of the leader epoch), not at the leader's LEO.
        """
        at = next((at for at, follower in enumerate(leader.followers) if follower.broker == broker), -1)
        if at < 0:
            return LeaderStep(leader, "UNKNOWN_TOPIC_OR_PARTITION")
        follower = leader.followers[at]
        cached = follower.metadata_epoch if metadata_epoch is None else metadata_epoch
        if self.refuses_fetch_of_old_epoch and NO_EPOCH != epoch < cached:
            return LeaderStep(leader, "NOT_LEADER_OR_FOLLOWER")
        follower = follower._replace(
            leo=offset, fetch_epoch=epoch, caught_up=follower.caught_up or offset >= leader.leo
        )
        leader = leader._replace(followers=(*leader.followers[:at], follower, *leader.followers[at + 1 :]))
        proposed = None
        if (
            not leader.pending
            and broker not in leader.isr
            and self.may_join(follower)
            and offset >= max(leader.hw, leader.epoch_start)
        ):
            leader = leader._replace(pending="EXPAND", maximal=leader.isr | {broker})
            proposed = self.proposal(leader, leader.maximal)
        return LeaderStep(self.advance_hw(leader, min_isr), proposed=proposed)

    def maybe_shrink(self, leader: Leader, min_isr: int) -> LeaderStep:
        """Ask for an ISR without the followers that fell behind.

        This is a periodic check; a follower at the leader's LEO never falls behind. The HW keeps
        waiting for them until the controller has confirmed.
        """
        if leader.pending:
            return LeaderStep(leader)
        behind = {one.broker for one in leader.followers if not one.caught_up and one.leo != leader.leo}
        if not behind & leader.isr:
            return LeaderStep(leader)
        return LeaderStep(leader._replace(pending="SHRINK"), proposed=self.proposal(leader, leader.isr - behind))

    def isr_accepted(self, leader: Leader, min_isr: int, isr: Brokers) -> LeaderStep:
        """Apply an AlterPartition that succeeded with `isr`."""
        return self.isr_published(leader, min_isr, isr)

    def isr_refused(self, leader: Leader, error: str) -> LeaderStep:
        """Apply an AlterPartition that failed with `error`.

        The leader goes back to the committed ISR, keeps the pending one, or sends the request
        again.
        """
        if error in _REVERTS:
            return LeaderStep(leader._replace(maximal=leader.isr, pending=""))
        return LeaderStep(leader, retried=error not in _STAYS_PENDING)

    def isr_published(self, leader: Leader, min_isr: int, isr: Brokers) -> LeaderStep:
        """Apply the `isr` that the metadata log brought."""
        return LeaderStep(self.advance_hw(leader._replace(isr=isr, maximal=isr, pending=""), min_isr))

    def proposal(self, leader: Leader, isr: Brokers) -> tuple[tuple[int, int], ...]:
        """Return the ISR to ask for, with the broker epochs from the followers' fetches.

        A member that has not fetched yet has no epoch. If it crashed, the controller has removed it
        in the meantime, and the partition epoch refuses the request.
        """
        if not self.checks_epochs:
            return tuple((broker, NO_EPOCH) for broker in sorted(isr))
        epochs = {f.broker: NO_EPOCH if f.fetch_epoch is None else f.fetch_epoch for f in leader.followers}
        epochs[leader.broker] = leader.broker_epoch
        return tuple((broker, epochs[broker]) for broker in sorted(isr))
