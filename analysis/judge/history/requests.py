"""Finds the elections and reassignments that operators asked the controller for.

An unclean recovery that Ebbtide carried out (the step `recover`) asked for both.

Read from the steps, because these requests leave no metadata record of their own: a step that never
fired asked for nothing. A request may take effect long after it was made (it waits on a wire). So
any later change of its partition may be its effect. Steps of old records name no partition or type:
such a request may have been about any.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from analysis.judge.history.timeline import MILLISECOND_NS
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry

_KINDS = frozenset({"elect", "reassign", "recover"})


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request: `kind` is elect, reassign or recover, `type` is the election's.

    Partition or type None: not known. `strategy` and `elected_at`: the strategy of a recovery, and
    the metadata offset of the election that it proved; None without a proof.
    """

    kind: str
    fired_ns: int = 0
    partition: str | None = None
    type: str | None = None
    strategy: str | None = None
    elected_at: int | None = None

    def may_have_made(self, after: PartitionState) -> bool:
        """Return whether the request may have led to this state.

        It was about this partition, and was made before the state.
        """
        name = f"{after.topic}-{after.partition}"
        return self.partition in (None, name) and self.fired_ns <= after.at_ns + MILLISECOND_NS

    def asks_for(self, type_: str) -> bool:
        """Return whether the request may have asked for an election of this type.

        The types are preferred and unclean.
        """
        return self.kind in ("elect", "recover") and self.type in (None, type_)

    def has_recovered(self, after: PartitionState) -> bool:
        """Return whether the request is the unclean recovery that elected the leader of this state."""
        same = self.partition == f"{after.topic}-{after.partition}"
        return self.kind == "recover" and same and self.elected_at == after.metadata_offset


def requests(steps: Iterable[StepEntry]) -> tuple[Request, ...]:
    """Return the requests of a schedule."""
    return tuple(
        Request(
            kind=step.step,
            fired_ns=step.fired_ns,
            partition=_text(step.parameters.get("partition")),
            type="unclean" if step.step == "recover" else _text(step.parameters.get("type")),
            strategy=_text(step.parameters.get("strategy")),
            elected_at=_elected_at(step),
        )
        for step in steps
        if step.step in _KINDS and step.fired_ns is not None and step.parameters.get("strategy") != "manual"
    )


def _elected_at(step: StepEntry) -> int | None:
    """Return the metadata offset of the election that a recovery proved."""
    record = step.proof.get("record") if step.step == "recover" else None
    offset = record.get("metadata_offset") if isinstance(record, dict) else None
    return offset if isinstance(offset, int) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
