"""Finds the elections and reassignments that operators asked the controller for.

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

_KINDS = frozenset({"elect", "reassign"})


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request: `kind` is elect or reassign, `type` is the election's.

    Partition or type None: not known.
    """

    kind: str
    fired_ns: int = 0
    partition: str | None = None
    type: str | None = None

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
        return self.kind == "elect" and self.type in (None, type_)


def requests(steps: Iterable[StepEntry]) -> tuple[Request, ...]:
    """Return the requests of a schedule."""
    return tuple(
        Request(
            kind=step.step,
            fired_ns=step.fired_ns,
            partition=_text(step.parameters.get("partition")),
            type=_text(step.parameters.get("type")),
        )
        for step in steps
        if step.step in _KINDS and step.fired_ns is not None
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
