"""The leader's rules: HW, acks, and which ISR it asks the controller for.

`Leader` is what a leading broker knows: its committed ISR, the maximal ISR (with a pending expansion) and the
state of each follower. Each rule returns a `Step`. Offsets are log end offsets: the next offset to be written.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from analysis.spec.partition import NO_ERROR

Pending = Literal["", "EXPAND", "SHRINK"]


class Follower(NamedTuple):
    """A follower as its leader knows it.

    `caught_up` is whether it was at the leader's LEO within replica.lag.time.max.ms. `fetch_epoch` is the broker
    epoch of its last Fetch: `None` before the first, `NO_EPOCH` when Fetch carries none. `metadata_epoch` is
    the one in the leader's metadata cache; `fenced` and `shutting_down` are from there too.
    """

    broker: int
    leo: int
    caught_up: bool = True
    fenced: bool = False
    shutting_down: bool = False
    fetch_epoch: int | None = None
    metadata_epoch: int = 0


class Leader(NamedTuple):
    """A leader's view of its partition; `isr` is the committed ISR, `maximal` the one it replicates to."""

    broker: int
    replicas: tuple[int, ...]
    isr: int
    maximal: int
    followers: tuple[Follower, ...]
    leo: int = 0
    hw: int = 0
    epoch_start: int = 0
    pending: Pending = ""


class Step(NamedTuple):
    """What the leader did: its new state, the answer to the client, and the ISR it asks for.

    `proposed` holds `(broker id, broker epoch)` as in `AlterPartition.isr_epochs`, or `None` without a request.
    `done` is whether an acks=all write is complete; `retried` whether a failed request is sent again.
    """

    leader: Leader
    error: str = NO_ERROR
    proposed: tuple[tuple[int, int], ...] | None = None
    done: bool = False
    retried: bool = False


class LeaderRules:
    """The leader's half of a protocol variant. `min_isr` is the topic's configured min.insync.replicas."""

    def advance_hw(self, leader: Leader, min_isr: int) -> Leader:
        """The leader with the HW where the followers' progress allows it."""
        raise NotImplementedError

    def append(self, leader: Leader, min_isr: int, acks: int) -> Step:
        """A produce request of one record."""
        raise NotImplementedError

    def acked(self, leader: Leader, min_isr: int, offset: int) -> Step:
        """Whether an acks=all write up to `offset` is complete, and with which error."""
        raise NotImplementedError

    def fetch(
        self, leader: Leader, min_isr: int, broker: int, offset: int, epoch: int, metadata_epoch: int | None = None
    ) -> Step:
        """A follower fetches from `offset`, naming its broker epoch."""
        raise NotImplementedError

    def maybe_shrink(self, leader: Leader, min_isr: int) -> Step:
        """The periodic check for followers that fell behind."""
        raise NotImplementedError

    def isr_accepted(self, leader: Leader, min_isr: int, isr: int) -> Step:
        """AlterPartition succeeded with `isr`."""
        raise NotImplementedError

    def isr_refused(self, leader: Leader, error: str) -> Step:
        """AlterPartition failed with `error`."""
        raise NotImplementedError

    def isr_published(self, leader: Leader, min_isr: int, isr: int) -> Step:
        """The metadata log brought `isr`."""
        raise NotImplementedError
