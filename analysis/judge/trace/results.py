"""What the check of a timeline found: transitions with the actions that explain them, and those that none explains."""

from __future__ import annotations

from collections import Counter

import msgspec

from analysis.judge.trace.actions import PossibleAction
from analysis.spec.partition import Partition
from ebbtide.record.rows import PartitionState


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A transition and the action that explains it; `before` None: the partition was created."""

    before: PartitionState | None
    after: PartitionState
    action: str
    by: str


class Near(msgspec.Struct, frozen=True, kw_only=True):
    """What an action would have led to: the fields that differ from what was seen, as they would have been."""

    action: str
    by: str
    instead: dict[str, object]


class Unexplained(msgspec.Struct, frozen=True, kw_only=True):
    """A transition that no action explains, or one that an event should have made and did not: `before` is `after`.

    `metadata_offset` is the record at which it shows; `undecided`: the evidence lacks what the answer hangs on.
    """

    metadata_offset: int
    before: PartitionState | None
    after: PartitionState
    why: str
    undecided: bool = False
    nearest: tuple[Near, ...] = ()


class TimelineTrace(msgspec.Struct, frozen=True, kw_only=True):
    """Every transition of a timeline in the order of its log; `refused` says why none could be checked."""

    explained: tuple[Explained, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
    refused: str | None = None

    @property
    def actions(self) -> dict[str, int]:
        """How often each action was seen."""
        return dict(sorted(Counter(one.action for one in self.explained).items()))


def near_to(candidate: PossibleAction, seen: Partition) -> Near:
    """What the candidate would have led to, against the state that was seen."""
    return Near(action=candidate.name, by=candidate.by, instead=differences(candidate.partition, seen))


def differences(one: Partition, seen: Partition) -> dict[str, object]:
    """The fields of `one` that are not as in `seen`; sets as sorted lists."""
    return {
        name: _plain(value) for name, value, other in zip(Partition._fields, one, seen, strict=True) if value != other
    }


def _plain(value: object) -> object:
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value
