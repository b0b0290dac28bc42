"""Holds what the check of a timeline found: explained and unexplained transitions."""

from __future__ import annotations

from collections import Counter

import msgspec

from analysis.judge.trace.actions import PossibleAction
from analysis.spec.partition import Partition
from ebbtide.record.rows import PartitionState


class ExplainedTransition(msgspec.Struct, frozen=True, kw_only=True):
    """A transition and the action that explains it.

    `before` None: the partition was created.
    """

    before: PartitionState | None
    after: PartitionState
    action: str
    by: str


class NearestAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action that nearly explains a transition.

    `instead` holds the fields that would differ from what was seen, with the action's values.
    """

    action: str
    by: str
    instead: dict[str, object]


class UnexplainedTransition(msgspec.Struct, frozen=True, kw_only=True):
    """A transition that no action explains, or a missing transition.

    A missing transition has `before` as `after`: an event should have changed the partition and did
    not. `metadata_offset` is the record at which it shows; `undecided`: the answer depends on
    missing evidence.
    """

    metadata_offset: int
    before: PartitionState | None
    after: PartitionState
    why: str
    undecided: bool = False
    nearest: tuple[NearestAction, ...] = ()


class TimelineTrace(msgspec.Struct, frozen=True, kw_only=True):
    """Every transition of a timeline in the order of its log.

    `refused` says why none could be checked.
    """

    explained: tuple[ExplainedTransition, ...] = ()
    unexplained: tuple[UnexplainedTransition, ...] = ()
    refused: str | None = None

    @property
    def actions(self) -> dict[str, int]:
        """Count how often each action was seen."""
        return dict(sorted(Counter(one.action for one in self.explained).items()))


def nearest_action(candidate: PossibleAction, seen: Partition) -> NearestAction:
    """Compare the candidate's result with the state that was seen."""
    return NearestAction(action=candidate.name, by=candidate.by, instead=differences(candidate.partition, seen))


def differences(one: Partition, seen: Partition) -> dict[str, object]:
    """Return the fields of `one` that differ from `seen`; sets as sorted lists."""
    return {
        name: _as_json_value(value)
        for name, value, other in zip(Partition._fields, one, seen, strict=True)
        if value != other
    }


def _as_json_value(value: object) -> object:
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value
