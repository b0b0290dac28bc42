"""The result of reconciling a run, from which the judge decides.

It has anomalies to show, and groups of all items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

import msgspec

from ebbtide.logs.segments import TopicPartition
from ebbtide.record.verdict import AnomalyCount, Counts
from ebbtide.scenario.internal_topics import OFFSETS_PARTITION, OFFSETS_TOPIC


class ItemGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Items of one kind and partition that the judge treats alike.

    `ORDER`: the fields by which the groups of one partition are sorted. `SHOWN`: those that clauses show.
    """

    ORDER: ClassVar[tuple[str, ...]] = ()
    SHOWN: ClassVar[tuple[str, ...]] = ()

    kind: str
    topic: str
    partition: int
    count: int

    @property
    def log(self) -> TopicPartition:
        """The partition whose leaders may have lost the items."""
        return TopicPartition(self.topic, self.partition)

    @property
    def span(self) -> tuple[int | None, int | None]:
        """The lowest and the highest offset of the items; of a HW, what it went back to and from."""
        return None, None

    @property
    def evidence(self) -> Mapping[str, object]:
        """What clauses show of the items, besides their partition and number."""
        return {name.removesuffix("_"): getattr(self, name) for name in self.SHOWN}


G = TypeVar("G", bound=ItemGroup)


class GroupsOfKind(msgspec.Struct, frozen=True, kw_only=True):
    """How a kind of anomaly groups its items, in SQL on the columns of `analysis.reconcile.work`.

    - `into`: what a group is. Kinds may share it.
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
    of sending where that is not known.
    `acked_after_epoch` is by the controller's clock; null when the metadata log has no election
    before.
    """

    ORDER = ("first_offset", "acks")
    SHOWN = ("acks", "first_offset", "last_offset")

    acks: int
    committed: bool
    first_offset: int
    last_offset: int
    acked_after_epoch: int | None = None
    first_done_ns: int
    last_done_ns: int

    @property
    def span(self) -> tuple[int, int]:
        """The lowest and the highest offset."""
        return self.first_offset, self.last_offset


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
    SHOWN = ("kind", "first_offset", "last_offset")

    leader_epoch: int | None = None
    committed: bool
    first_offset: int
    last_offset: int
    read_ns: int | None = None

    @property
    def span(self) -> tuple[int, int]:
        """The lowest and the highest offset."""
        return self.first_offset, self.last_offset


VANISHED_RANGES = GroupsOfKind(
    into=VanishedRange,
    by=("leader_epoch", "committed"),
    figures=("min(offset) AS first_offset", "max(offset) AS last_offset", "min(at_ns) AS read_ns"),
    where="NOT coalesce(also_lost, false)",
)
"""Vanished and diverged records are grouped by what decides their cause."""


class HwRegression(ItemGroup, frozen=True, kw_only=True):
    """One drop of the HW that leaders served; `count` observations show it.

    It goes from the highest HW served before to the lowest under `leader_epoch`; `broker` served
    it. A HW that stays low under later epochs is not a drop of those epochs.
    """

    ORDER = ("leader_epoch",)
    SHOWN = ("from_", "to", "leader_epoch")

    count: int = 1
    from_: int
    to: int
    leader_epoch: int
    broker: int
    earlier_at_ns: int
    at_ns: int
    earlier_leader_epoch: int

    @property
    def span(self) -> tuple[int, int]:
        """What it went back to and from."""
        return self.to, self.from_


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

    group: str

    @property
    def log(self) -> TopicPartition:
        """The partition of `__consumer_offsets` with the offsets of copiers."""
        return TopicPartition(OFFSETS_TOPIC, OFFSETS_PARTITION)


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

    group: str
    first: CommitItem
    last: CommitItem
    settled: bool = True

    @property
    def log(self) -> TopicPartition:
        """The partition of `__consumer_offsets` that the commits were in."""
        return TopicPartition(OFFSETS_TOPIC, self.first.offsets_partition)

    @property
    def span(self) -> tuple[int, int]:
        """The offset of the last commit."""
        return self.last.offset, self.last.offset

    @property
    def evidence(self) -> Mapping[str, object]:
        """What clauses show of them: of the last one, what was served instead."""
        return {
            "kind": self.kind,
            "group": self.group,
            "of": f"{self.topic}-{self.partition}",
            "offset": self.last.offset,
            "served": self.last.served_offset,
            "settled": self.settled,
        }


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
