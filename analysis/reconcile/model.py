"""The result of reconciling a run, from which the judge decides.

It has anomalies to show, and groups of all items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

import msgspec

from ebbtide.record.verdict import AnomalyCount, Counts


class ItemGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Items of one partition that the judge treats alike.

    `ORDER`: the fields by which the groups of one partition are sorted.
    """

    ORDER: ClassVar[tuple[str, ...]] = ()

    topic: str
    partition: int
    count: int


G = TypeVar("G", bound=ItemGroup)


class GroupsOfKind(msgspec.Struct, frozen=True, kw_only=True):
    """How a kind of anomaly groups its items, in SQL on the columns of `analysis.reconcile.items`.

    - `into`: what a group is. Kinds that share it have a field `kind` there.
    - `by`: besides the partition, what the items of a group have in common.
    - `figures`: what else is known of a group, besides the count.
    - `where`: which items are grouped.
    """

    into: type[ItemGroup]
    by: tuple[str, ...] = ()
    figures: tuple[str, ...] = ("min(struct(offset, value, details)) AS first",)
    where: str = "true"


class ShownGroup(ItemGroup, frozen=True, kw_only=True):
    """A group whose `first` item, at the lowest offset, is as anomalies/ has it."""

    ORDER: ClassVar[tuple[str, ...]] = ("first.offset", "first.value")

    first: Mapping[str, object]


class LostRange(ItemGroup, frozen=True, kw_only=True):
    """Lost records of one partition that share acks, commitment and leader epoch.

    The epoch is the one in force when they were acked. `count` may be less than the offsets from
    first to last: lost records need not be adjacent. Times are those of their acknowledgements, or
    of sending where that is not known; `last_sent_ns` is when the last of them was sent.
    `acked_after_epoch` is by the controller's clock; null when the metadata log has no election
    before.
    """

    ORDER = ("first_offset", "acks")

    acks: int
    committed: bool
    first_offset: int
    last_offset: int
    acked_after_epoch: int | None = None
    first_done_ns: int
    last_done_ns: int
    last_sent_ns: int | None = None


class VanishedRange(ItemGroup, frozen=True, kw_only=True):
    """Items of one partition that show committed records missing, lost ranges apart.

    `kind` is one of two:
    - `vanished`: a consumer had read them, the first at `read_ns`; they were written under
      `leader_epoch` (null: not known). `committed`: no place of the partition has them any more. If
      false, only their place was cut off, or their transaction is not known to be committed.
    - `replica-divergence`: `leader_epoch` is that of the oldest record at each of those offsets;
      null: all have the same epoch.

    `count` may be less than the offsets from first to last.
    """

    ORDER = ("first_offset", "kind")

    kind: str
    leader_epoch: int | None = None
    committed: bool
    first_offset: int
    last_offset: int
    read_ns: int | None = None


class HwRegression(ItemGroup, frozen=True, kw_only=True):
    """One drop of the HW that leaders served; `count` observations show it.

    It goes from the highest HW served before to the lowest under `leader_epoch`; `broker` served
    it. A HW that stays low under later epochs is not a drop of those epochs.
    """

    ORDER = ("leader_epoch",)

    count: int = 1
    from_: int
    to: int
    leader_epoch: int
    broker: int
    earlier_at_ns: int
    at_ns: int
    earlier_leader_epoch: int


class Duplicates(ShownGroup, frozen=True, kw_only=True):
    """All duplicates of one partition that the judge treats alike.

    `idempotent`: their producers were; `twice_in_final_log`: each stands at two places or more in the
    end; `unreadable`: each was at a place that nobody can read any more.
    """

    idempotent: bool
    twice_in_final_log: bool
    unreadable: bool


class AbortedReads(ShownGroup, frozen=True, kw_only=True):
    """All aborted reads of one partition."""


class HangingTransaction(ShownGroup, frozen=True, kw_only=True):
    """The open transaction at the LSO of one partition, which no coordinator will end."""


class WrongCopies(ShownGroup, frozen=True, kw_only=True):
    """All inputs of one partition with an item of one kind about copiers, for one group."""

    ORDER = ("group", "kind")

    kind: str
    group: str


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


class LostCommits(ItemGroup, frozen=True, kw_only=True):
    """Items of one kind, group and partition that show a loss under one leader epoch of the coordinator's partition.

    `first` and `last` are those that were acked, or served, first and last. `settled`: the coordinator
    had served its HW before (the module commits); it always had where a commit is lost.
    """

    ORDER = ("group", "first.at_ns")

    kind: str
    group: str
    first: CommitItem
    last: CommitItem
    settled: bool = True


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """All results of reconciling a run.

    `unknown` says, per kind, why it could not be judged, or not everywhere: what was found of it is
    certain, what was not found proves nothing. `anomalies` have examples, which are only shown.
    `groups` stand for every item of the kinds that declare how they group.
    `acked_commits`: rows of commits that were acked. `unchecked_commits` says why it is not known that each group got
    back its newest one.
    """

    counts: Counts
    anomalies: Sequence[AnomalyCount] = ()
    unknown: Mapping[str, str] = {}
    groups: Sequence[ItemGroup] = ()
    acked_commits: int = 0
    unchecked_commits: str | None = None

    def groups_of(self, into: type[G]) -> list[G]:
        """Return the groups that are of one sort, in their order."""
        return [one for one in self.groups if isinstance(one, into)]

    @property
    def lost(self) -> list[LostRange]:
        """The lost records."""
        return self.groups_of(LostRange)

    @property
    def regressions(self) -> list[HwRegression]:
        """The HWs that went back."""
        return self.groups_of(HwRegression)

    @property
    def vanished(self) -> list[VanishedRange]:
        """The vanished and diverged records."""
        return self.groups_of(VanishedRange)

    @property
    def commits(self) -> list[LostCommits]:
        """The commits that groups lost."""
        return self.groups_of(LostCommits)
