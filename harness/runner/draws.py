"""Everything that is drawn from a run's seed, so that it can be printed, kept and drawn again.

A seed reproduces these values and nothing else: timing, leader elections and what the kernel wrote back are
the machine's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import msgspec

from ebbtide.scenario.model import Scenario


class Draws(msgspec.Struct, frozen=True, kw_only=True):
    """`assignments`: per topic, the replicas of each partition; the first is the preferred leader."""

    assignments: Mapping[str, tuple[tuple[int, ...], ...]]

    def lines(self) -> dict[str, str]:
        """Each drawn value by name, as printed and as kept in the manifest."""
        return {
            f"replicas of {topic}-{partition}": ", ".join(map(str, replicas))
            for topic, partitions in self.assignments.items()
            for partition, replicas in enumerate(partitions)
        }


def draw(scenario: Scenario, seed: int) -> Draws:
    """Draw what the scenario leaves open; the same seed draws the same values for the same scenario."""
    random = Random(seed)
    brokers = range(1, scenario.cluster.brokers + 1)
    return Draws(
        assignments={
            name: topic.assignment
            or tuple(tuple(random.sample(brokers, topic.replication_factor)) for _ in range(topic.partitions))
            for name, topic in scenario.topics.items()
        }
    )
