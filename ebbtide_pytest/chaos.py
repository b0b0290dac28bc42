"""A cluster to break step by step, with producers and consumers whose every record is accounted for at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebbtide_pytest.kafka_cluster import Breakable

if TYPE_CHECKING:
    from harness.owner.messages import ClusterStatus
    from harness.record.steps import StepEntry
    from harness.scenario.model import StepSpec


class Unproven(AssertionError):
    """A step never fired, or has no proof that it took effect: whatever follows proves nothing."""


class Chaos(Breakable):
    """One run, driven by a test. After the test everything is healed, settled and read, and the record is judged."""

    def __init__(self, status: ClusterStatus, topics: tuple[str, ...]) -> None:
        super().__init__(status)
        self.topics = topics

    def _fire(self, step: StepSpec) -> StepEntry:
        """Raises `Unproven` besides."""
        from harness.scenario.model import WIRE_KINDS

        __tracebackhide__ = True
        entry = super()._fire(step)
        name = f"step {entry.index} ({entry.step})"
        if entry.fired_ns is None:
            raise Unproven(f"inconclusive: {name} never fired: {entry.why}")
        if entry.effect_ns is None and (entry.why is not None or step.step not in WIRE_KINDS):
            raise Unproven(f"inconclusive: {name} has no proof that it took effect: {entry.why}")
        return entry
