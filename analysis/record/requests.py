"""Finds the elections and reassignments that operators asked the controller for.

An unclean recovery that Ebbtide carried out (the step `recover`) asked for both.

Read from the steps, because these requests leave no metadata record of their own: a step that never
fired asked for nothing. A request may take effect long after it was made (it waits on a wire). So
any later change of its partition may be its effect, until its answer came: the controller elects
before it answers, also before it refuses to elect once more. A reassignment goes on after its answer.
Steps of old records name no partition or type: such a request may have been about any.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from analysis.record.timeline import MILLISECOND_NS
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.recovery import RecoverStep
from ebbtide.scenario.steps.step import RequestProof

_KINDS = frozenset({"elect", "reassign", "recover"})
_SURE_ANSWERS = frozenset(
    {
        "NONE",
        "ELECTION_NOT_NEEDED",
        "ELIGIBLE_LEADERS_NOT_AVAILABLE",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    }
)
"""Answers after which no election comes. Others, such as REQUEST_TIMED_OUT, leave that open."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request: `kind` is elect, reassign or recover, `type` is the election's.

    Partition or type None: not known. `answered_ns`: when the answer had come that ends the request;
    None: not known, or the kind is another. `strategy` and `elected_at`: the strategy of a recovery, and
    the metadata offset of the election that it proved; None without a proof.
    """

    kind: str
    fired_ns: int = 0
    answered_ns: int | None = None
    partition: str | None = None
    type: str | None = None
    strategy: str | None = None
    elected_at: int | None = None

    def may_have_made(self, after: PartitionState) -> bool:
        """Return whether the request may have led to this state.

        It was about this partition, and was made before the state and not answered before it.
        """
        name = f"{after.topic}-{after.partition}"
        was_open = self.answered_ns is None or after.at_ns <= self.answered_ns
        return self.partition in (None, name) and self.fired_ns <= after.at_ns + MILLISECOND_NS and was_open

    def asks_for(self, type_: str) -> bool:
        """Return whether the request may have asked for an election of this type.

        The types are preferred and unclean.
        """
        return self.kind in ("elect", "recover") and self.type in (None, type_)


def requests(steps: Iterable[StepEntry]) -> tuple[Request, ...]:
    """Return the requests of a schedule."""
    return tuple(
        Request(
            kind=step.step,
            fired_ns=step.fired_ns,
            answered_ns=_answered_ns(step),
            partition=step.asked.partition,
            type="unclean" if step.step == "recover" else step.asked.type,
            strategy=step.asked.strategy,
            elected_at=_elected_at(step),
        )
        for step in steps
        if step.step in _KINDS and step.fired_ns is not None and step.asked.strategy != "manual"
    )


def _answered_ns(step: StepEntry) -> int | None:
    """Return when an election's answer had come, if it says that none comes later."""
    is_sure = step.step == "elect" and step.figures(RequestProof).answer in _SURE_ANSWERS
    return step.effect_ns if is_sure else None


def _elected_at(step: StepEntry) -> int | None:
    """Return the metadata offset of the election that a recovery proved, or a request that Kafka said yes to."""
    if step.step == "elect" and step.figures(RequestProof).answer != "NONE":
        return None
    record = step.figures(RecoverStep.Proof).record
    return None if record is None else record.metadata_offset
