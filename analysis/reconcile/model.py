"""The result of reconciling a run, from which the judge decides.

It has anomalies to show, and groups of all items.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ebbtide.record.verdict import AnomalyCount, Counts


class LostRange(msgspec.Struct, frozen=True, kw_only=True):
    """Lost records of one partition that share acks, commitment and leader epoch.

    The epoch is the one in force when they were acked. `count` may be less than the offsets from
    first to last: lost records need not be adjacent. Times are those of their acknowledgements, or
    of sending where that is not known; `last_sent_ns` is when the last of them was sent.
    `acked_after_epoch` is by the controller's clock; null when the metadata log has no election
    before.
    """

    topic: str
    partition: int
    acks: int
    committed: bool
    first_offset: int
    last_offset: int
    count: int
    acked_after_epoch: int | None = None
    first_done_ns: int
    last_done_ns: int
    last_sent_ns: int | None = None


class VanishedRange(msgspec.Struct, frozen=True, kw_only=True):
    """Items of one partition that show committed records missing, lost ranges apart.

    `kind` is one of two:
    - `vanished`: a consumer had read them, the first at `read_ns`; they were written under
      `leader_epoch` (null: not known). `committed`: no place of the partition has them any more. If
      false, only their place was cut off, or their transaction is not known to be committed.
    - `replica-divergence`: `leader_epoch` is that of the oldest record at each of those offsets;
      null: all have the same epoch.

    `count` may be less than the offsets from first to last.
    """

    kind: str
    topic: str
    partition: int
    leader_epoch: int | None = None
    committed: bool
    first_offset: int
    last_offset: int
    count: int
    read_ns: int | None = None


class HwRegression(msgspec.Struct, frozen=True, kw_only=True):
    """One drop of the HW that leaders served, however many observations show it.

    It goes from the highest HW served before to the lowest under `leader_epoch`; `broker` served
    it. A HW that stays low under later epochs is not a drop of those epochs.
    """

    topic: str
    partition: int
    from_: int
    to: int
    leader_epoch: int
    broker: int
    earlier_at_ns: int
    at_ns: int
    earlier_leader_epoch: int


class Duplicates(msgspec.Struct, frozen=True, kw_only=True):
    """All duplicates of one partition that the judge treats alike.

    `idempotent`: their producers were; `twice_in_final_log`: each stands at two places or more in the
    end; `unreadable`: each was at a place that nobody can read any more. `first` is the duplicate
    at the lowest offset, as anomalies/ has it.
    """

    topic: str
    partition: int
    idempotent: bool
    twice_in_final_log: bool
    unreadable: bool
    count: int
    first: dict[str, Any]


class AbortedReads(msgspec.Struct, frozen=True, kw_only=True):
    """All aborted reads of one partition.

    `first` is the one at the lowest offset, as anomalies/ has it.
    """

    topic: str
    partition: int
    count: int
    first: dict[str, Any]


class HangingTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """The open transaction at the LSO of one partition, which no coordinator will end.

    `first` is the item as anomalies/ has it.
    """

    topic: str
    partition: int
    count: int
    first: dict[str, Any]


class WrongCopies(msgspec.Struct, frozen=True, kw_only=True):
    """All inputs of one partition with an item of one kind about copiers, for one group.

    `first` is the one at the lowest offset, as anomalies/ has it.
    """

    kind: str
    group: str
    topic: str
    partition: int
    count: int
    first: dict[str, Any]


class CommitItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a kind of lost commits, as anomalies/ has it.

    The commit `commit` of `offset`, sent at `sent_ns`, was acked or served at `at_ns`. After that the
    broker `broker` served `served_offset` under `leader_epoch` of the partition `offsets_partition` of
    `__consumer_offsets`; null: nothing. It was asked at `asked_ns`.
    """

    commit: int
    offset: int
    sent_ns: int
    at_ns: int
    served_offset: int | None = None
    served_commit: int | None = None
    broker: int
    leader_epoch: int
    offsets_partition: int
    asked_ns: int


class LostCommits(msgspec.Struct, frozen=True, kw_only=True):
    """Items of one kind, group and partition that show a loss under one leader epoch of the coordinator's partition.

    `first` and `last` are those that were acked, or served, first and last. `settled`: the coordinator
    had served its HW before (the module commits); it always had where a commit is lost.
    """

    kind: str
    group: str
    topic: str
    partition: int
    count: int
    first: CommitItem
    last: CommitItem
    settled: bool = True


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """All results of reconciling a run.

    `unknown` says, per kind, why it could not be judged, or not everywhere: what was found of it is
    certain, what was not found proves nothing. `anomalies` have examples, which are only shown.
    `lost`, `regressions`, `vanished`, `duplicates`, `aborted_reads`, `hanging`, `commits` and `copies` stand for every
    item.
    `acked_commits`: rows of commits that were acked. `unchecked_commits` says why it is not known that each group got
    back its newest one.
    """

    counts: Counts
    anomalies: list[AnomalyCount]
    unknown: dict[str, str]
    lost: list[LostRange]
    regressions: list[HwRegression]
    vanished: list[VanishedRange] = []
    duplicates: list[Duplicates] = []
    aborted_reads: list[AbortedReads] = []
    hanging: list[HangingTransaction] = []
    commits: list[LostCommits] = []
    copies: list[WrongCopies] = []
    acked_commits: int = 0
    unchecked_commits: str | None = None
