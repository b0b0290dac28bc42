"""Draws the values that a scenario leaves open from the run's seed.

A seed reproduces these values and nothing else: timing, leader elections and the kernel's write-back vary.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import msgspec

from ebbtide.scenario.model import Scenario


class Draws(msgspec.Struct, frozen=True, kw_only=True):
    """The drawn values.

    `assignments`: for each topic the replicas of each partition, preferred leader first.
    """

    assignments: Mapping[str, tuple[tuple[int, ...], ...]]

    def lines(self) -> dict[str, str]:
        """Return each drawn value by name, as the run prints it and the manifest keeps it."""
        return {
            f"replicas of {topic}-{partition}": ", ".join(map(str, replicas))
            for topic, partitions in self.assignments.items()
            for partition, replicas in enumerate(partitions)
        }


def draw(scenario: Scenario, seed: int) -> Draws:
    """Draw what the scenario leaves open.

    The same seed draws the same values for the same scenario.
    """
    random = Random(seed)
    brokers = range(1, scenario.cluster.brokers + 1)
    return Draws(
        assignments={
            name: topic.assignment
            or tuple(tuple(random.sample(brokers, topic.replication_factor)) for _ in range(topic.partitions))
            for name, topic in scenario.topics.items()
        }
    )
