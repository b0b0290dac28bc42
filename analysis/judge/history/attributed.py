"""Anomalies with what explains them, and how sentences group and place them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Generic, TypeVar

import msgspec

from analysis.judge.history.evidence import Attribution
from ebbtide.record.verdict import LossEvent, RecordedElection
from ebbtide.rules.table import HW_REGRESSION, LOST

_PLACES_MAX = 4
"""So many partitions, or ranges of them, are named in a sentence."""


class BlamedPart(msgspec.Struct, frozen=True, kw_only=True):
    """What an anomaly is, by its kind: the fields are evidence of clauses."""

    SPAN: ClassVar[tuple[str, ...]] = ("first_offset", "last_offset")

    @property
    def span(self) -> tuple[int | None, int | None]:
        """The lowest and the highest offset; of a HW that went back, what it went back to and from."""
        numbers = [getattr(self, name) for name in self.SPAN] or [None]
        return numbers[0], numbers[-1]


class LostRecords(BlamedPart, frozen=True, kw_only=True):
    """Lost records of one `acks` between two offsets."""

    kind: ClassVar[str] = LOST
    acks: int
    first_offset: int
    last_offset: int


class VanishedPart(BlamedPart, frozen=True, kw_only=True):
    """Vanished or diverged records between two offsets; `kind` is the anomaly's."""

    kind: str
    first_offset: int
    last_offset: int


class FallenHw(BlamedPart, frozen=True, kw_only=True):
    """An HW that went back under a leader epoch."""

    SPAN = ("to", "from_")
    kind: ClassVar[str] = HW_REGRESSION
    from_: int = msgspec.field(name="from")
    to: int
    leader_epoch: int


class LostCommit(BlamedPart, frozen=True, kw_only=True):
    """The commits of a `group` for partition `of`, the last of which was of `offset`, and what was `served` instead.

    `kind` is the anomaly's; `settled` is as in the reconciliation.
    """

    SPAN = ("offset",)

    kind: str
    group: str
    of: str
    offset: int
    served: int | None
    settled: bool


class RepeatedInput(BlamedPart, frozen=True, kw_only=True):
    """Inputs from partition `of` that a `group` copied more than once."""

    SPAN = ()

    kind: str
    group: str
    of: str


What = LostRecords | VanishedPart | FallenHw | LostCommit | RepeatedInput
W = TypeVar("W", bound=What, covariant=True)


class AttributedAnomaly(msgspec.Struct, Generic[W], frozen=True, kw_only=True):
    """One part of an anomaly, with its attribution.

    `what` says what it is, by its kind. `oldest_s` and `lost_by` of lost records are as in
    `ebbtide.record.verdict.Loss`.
    """

    topic: str
    partition: int
    what: W
    count: int
    committed: bool
    attribution: Attribution
    oldest_s: float | None = None
    lost_by: LossEvent | None = None


AnyAnomaly = AttributedAnomaly[What]
"""One of whatever kind."""
A = TypeVar("A", bound=AnyAnomaly)


def election_of(attribution: Attribution) -> RecordedElection | None:
    """Return the guilty election as verdict.json names it."""
    return attribution.election.as_recorded if attribution.election is not None else None


def election_in_brackets(attribution: Attribution) -> str:
    """Return the guilty election in brackets, to end a sentence; empty if none."""
    one = election_of(attribution)
    return f" (election of {one})" if one is not None else ""


def group_alike(blamed: Iterable[AnyAnomaly]) -> list[list[AnyAnomaly]]:
    """Group anomalies that one sentence can describe: those of one reason, at most one election in each partition.

    A partition that lost records by two elections is therefore in two groups.
    """
    groups: dict[tuple[str | None, str, int], list[AnyAnomaly]] = {}
    elections: dict[tuple[str, int, str | None, str], list[Attribution]] = {}
    for one in blamed:
        attribution = one.attribution
        known = elections.setdefault((one.topic, one.partition, attribution.cause, attribution.why), [])
        if attribution not in known:
            known.append(attribution)
        groups.setdefault((attribution.cause, attribution.why, known.index(attribution)), []).append(one)
    return list(groups.values())


def places_of(alike: Sequence[AnyAnomaly]) -> str:
    """Return the partitions of a group: `t-0`, `t-0 and t-4`, or `t-0 to t-5 (6 partitions)`."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted({(one.topic, one.partition) for one in alike}):
        by_topic.setdefault(topic, []).append(partition)
    count = sum(map(len, by_topic.values()))
    named: list[str] = []
    for topic, numbers in by_topic.items():
        in_a_row = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
        named += [f"{topic}-{numbers[0]} to {topic}-{numbers[-1]}"] if in_a_row else [f"{topic}-{n}" for n in numbers]
    shown = named[:_PLACES_MAX] + ([f"{len(named) - _PLACES_MAX} more"] if len(named) > _PLACES_MAX else [])
    text = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"{text} ({count} partitions)" if count > 2 else text


def elections_in_brackets(alike: Sequence[AnyAnomaly]) -> str:
    """Return the guilty elections of a group in brackets, to end a sentence; empty if none."""
    found = list(dict.fromkeys((one.leader, one.epoch) for a in alike if (one := a.attribution.election) is not None))
    if len(found) < 2:
        return election_in_brackets(alike[0].attribution)
    leaders, epochs = (sorted(set(numbers)) for numbers in zip(*found, strict=True))
    who = f"broker {leaders[0]}" if len(leaders) == 1 else f"brokers {', '.join(map(str, leaders))}"
    when = f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]} to {epochs[-1]}"
    return f" (elections of {who}, leader {when})"
