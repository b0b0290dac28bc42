"""What operators asked of the controller, of what leaves no record of its own: elections and reassignments.

Read from the steps: a step that never fired asked for nothing. A request may take effect long after it was made (it
waits on a wire), so it stands for whatever its partition shows from then on. What a step does not say, as in old
records, it may have been about.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from analysis.judge.history.timeline import MILLISECOND_NS
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry

_KINDS = frozenset({"elect", "reassign"})


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request: `kind` is elect or reassign, `type` the election's; partition or type None: not known."""

    kind: str
    fired_ns: int = 0
    partition: str | None = None
    type: str | None = None

    def may_have_made(self, after: PartitionState) -> bool:
        """Whether it was about this partition, and made before this state."""
        name = f"{after.topic}-{after.partition}"
        return self.partition in (None, name) and self.fired_ns <= after.at_ns + MILLISECOND_NS

    def asks_for(self, type_: str) -> bool:
        """Whether it may have asked for an election of this type, preferred or unclean."""
        return self.kind == "elect" and self.type in (None, type_)


def requests(steps: Iterable[StepEntry]) -> tuple[Request, ...]:
    """The requests of a schedule."""
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
