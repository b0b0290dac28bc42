"""The struct that every kind of step builds on, and what several kinds share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.roles import Role
from ebbtide.scenario.steps.kind import Kind
from ebbtide.scenario.steps.proof import StepProof
from ebbtide.scenario.triggers import Trigger, tag_of


class StepSpec:
    """One step of the schedule: a struct of its kind.

    `ebbtide.scenario.plain_values` reads and writes all kinds.

    - `deadline_s` bounds the wait for the trigger. In a rolling step it also bounds the wait for the whole ISR after
      each broker, and in an administrative step the wait for the answer and its record.
    - `name` lets a later role, `step(NAME)`, refer to the nodes that this step acted on.
    - `optional`: the schedule does not depend on this step. If the step cannot fire or takes no effect, the run
      continues and can still end as predicted.
    """

    __slots__ = ()

    kind: ClassVar[Kind]
    """What is true of every step of this kind."""
    Proof: ClassVar[type[StepProof]] = StepProof
    """What its proof says in a record."""
    shown: ClassVar[Mapping[str, str]] = {
        "trigger": "a trigger, e.g. 'acked = 1000'",
        "deadline_s": "how long to wait at most, in seconds",
        "name": "a name, for step(NAME) in later roles",
        "optional": "the run stays valid if the step cannot fire or has no effect",
    }
    """What stands for the keys that this struct declares, if the words of their types do not say it."""

    name: str | None
    trigger: Trigger | None
    deadline_s: float
    optional: bool | None

    @property
    def step(self) -> str:
        """The kind's word."""
        return tag_of(type(self))

    def mistakes(self, clients: Sequence[str], earlier: Iterable[StepSpec], where: str) -> Iterator[UsageError]:
        """Yield what only this kind's own module knows to be wrong; nothing by default.

        `clients` are those of the scenario, such as `producer(1)`.
        """
        yield from ()

    def replace(self, **changes: object) -> Self:
        """Return the same step with these fields changed."""
        return cast(Self, msgspec.structs.replace(cast(Any, self), **changes))


class BaseStep(StepSpec, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="step"):
    """The fields of every kind."""

    name: str | None = None
    trigger: Trigger | None = None
    deadline_s: float = 30.0
    optional: bool | None = None


class TargetStep(BaseStep, frozen=True, kw_only=True):
    """A step that acts on the nodes of a role."""

    target: Role


class MaybeTargetStep(BaseStep, frozen=True, kw_only=True):
    """A step that acts on the nodes of a role, or on all nodes without a role."""

    target: Role | None = None


def target_of(step: StepSpec) -> Role | None:
    """Return the role that the step acts on; None if it has no role."""
    return cast(Role | None, getattr(step, "target", None))


class WaitStep(BaseStep, frozen=True, kw_only=True, tag="wait"):
    """Waits for its trigger."""

    kind = Kind(
        family="waiting",
        does="waits for its trigger",
        proof="the trigger fired",
        weight=6.0,
    )
    trigger: Trigger


WaitingStep = WaitStep
