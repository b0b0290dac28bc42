"""What the causes of one partition's losses are judged from, in memory.

The judge makes it from a run record. A simulator may make it without any file. Times are nanoseconds of the run's
clock. Rows are columns of one length, because a run may have millions of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from ebbtide.record.node_times import Span
from ebbtide.record.rows import BrokerEvent, PartitionState

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NEVER = 1 << 62
"""The time of what never happened, as far as the record says."""
UNKNOWN = -1
"""Stands in a column for a leader epoch or a time that is not known."""
SLACK_NS = 210_000_000
"""Two clocks of a run may differ by this much."""


def column(values: object = ()) -> Ints:
    """Return a column of integers."""
    return np.asarray(values, dtype=np.int64)


class AckedSends(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The records that a producer got an ack with an offset for."""

    value: Ints = column()
    offset: Ints = column()
    acks: Ints = column()
    sent_ns: Ints = column()
    done_ns: Ints = column()


class ReadRows(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Records that somebody read, each with the epoch that it was read under (`UNKNOWN`: nobody knows).

    `at_ns` is when a consumer had returned the record; a row of the final read or of a replica's log has no time.
    """

    value: Ints = column()
    offset: Ints = column()
    epoch: Ints = column()
    at_ns: Ints = column()

    @classmethod
    def joined(cls, parts: Sequence[ReadRows]) -> ReadRows:
        """Return the rows of several, one after the other."""
        names = cls.__struct_fields__
        return cls(**{name: np.concatenate([column(), *(getattr(one, name) for one in parts)]) for name in names})


class Watermarks(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The HWs that leaders served: the broker, its leader epoch, when it was asked and when the answer came."""

    broker: Ints = column()
    epoch: Ints = column()
    high_watermark: Ints = column()
    asked_ns: Ints = column()
    at_ns: Ints = column()


class Down(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's process surely ended within `ended`, and was started again at `started_ns` or later.

    `started_ns` `NEVER`: it was not.
    """

    broker: int
    ended: Span
    started_ns: int = NEVER


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing passed between two ends of a link from one time to another, as a step proved.

    `links`: the ends, the lower id first; clients are `CLIENTS`. `brokers`: paused, so silent to everybody.
    """

    from_ns: int
    until_ns: int = NEVER
    links: frozenset[tuple[int, int]] = frozenset()
    brokers: frozenset[int] = frozenset()


class MeasuredEnds(msgspec.Struct, frozen=True):
    """Where a log ended before and after a disk event; both were measured."""

    before: int
    after: int


class DiskLoss(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's log of this partition may have lost records within a time.

    `ends` None: nobody measured how much. A measured end counts also where nothing was lost.
    """

    broker: int
    within: Span
    ends: MeasuredEnds | None = None


class UncleanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An operator asked for an unclean election of this partition, or carried out an unclean recovery.

    `elected_at`: the metadata offset of the election that it made, as its proof says; None: no proof says it.
    `is_recovery`: it first asks the replicas, so it may have asked for no election.
    """

    asked_ns: int
    answered_ns: int = NEVER
    elected_at: int | None = None
    is_recovery: bool = False


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """The rules from a metadata offset and its time on; None: not known.

    `elr`: the controller keeps an ELR. `kip_903`: it refuses an ISR member with an old broker epoch. `unclean`: it may
    elect uncleanly without a request. `min_isr` is the effective one.
    """

    metadata_offset: int = 0
    at_ns: int = 0
    elr: bool | None = False
    kip_903: bool | None = True
    unclean: bool | None = False
    min_isr: int | None = 1


class ClusterEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What all partitions of a run share.

    - `broker_events` None: the table is missing. They are in the order of the metadata log.
    - `steps_known` False: nobody recorded what was done to the cluster, so any restart may hide a lost disk.
    - `log_whole`: no record of the metadata log is missing. `log_torn`: its end may be missing.
    """

    broker_events: tuple[BrokerEvent, ...] | None = ()
    downs: tuple[Down, ...] = ()
    silences: tuple[Silence, ...] = ()
    steps_known: bool = True
    log_whole: bool = True
    log_torn: bool = False
    slack_ns: int = SLACK_NS


class PartitionEvidence(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One partition: its states in the order of the metadata log, its disks, and what clients saw.

    - `states` may lack records: a partition epoch that jumps shows a gap.
    - `rules` are in the order of the metadata log; the first holds from the start on.
    - `polls` are the rows of ordinary consumers; `final` is the log at the end, as the final read got it. `replicas`
      are the logs of brokers at the end.
    """

    topic: str
    partition: int
    cluster: ClusterEvidence = ClusterEvidence()
    states: tuple[PartitionState, ...] = ()
    rules: tuple[InForce, ...] = (InForce(),)
    disks: tuple[DiskLoss, ...] = ()
    requests: tuple[UncleanRequest, ...] = ()
    sends: AckedSends = AckedSends()
    polls: ReadRows = ReadRows()
    final: ReadRows = ReadRows()
    replicas: dict[int, ReadRows] = {}
    watermarks: Watermarks = Watermarks()
