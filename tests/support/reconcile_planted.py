"""Healthy histories with anomalies of every kind, planted in known numbers.

Each kind is on a topic of its own.
"""

from __future__ import annotations

import random

from anomaly_kinds import Planted, planters
from healthy_history import COORDINATORS, healthy_history
from records import RecordBuilder

from analysis.reconcile.model import Reconciliation


def _coordinated(builder: RecordBuilder) -> RecordBuilder:
    for epoch, (broker, at_ns) in enumerate(COORDINATORS):
        builder.coordinated_by(broker, epoch=epoch, at_ns=at_ns)
    return builder


def planted_run(dice: random.Random) -> tuple[RecordBuilder, dict[str, Planted]]:
    """A run with a topic a planter, and what must be found on each topic."""
    builder = _coordinated(RecordBuilder().transactions(one="CompleteAbort", other="Empty"))
    expected = {}
    for number, plant in enumerate(planters()):
        topic = f"{number}{plant.__name__.strip('<>')}"
        healthy_history(builder.on(topic, base=1_000 * number))
        expected[topic] = plant(builder, dice.randint(1, 20))
    return builder, expected


def run_with_commits_of_what_nobody_read() -> tuple[RecordBuilder, dict[str, Planted]]:
    """A run with a lost commit of a partition that the final read leaves out, and no item.

    Nothing is held against Kafka there: the topic, and its commits with it, may have been deleted.
    """
    builder = healthy_history(_coordinated(RecordBuilder()).on("unread"))
    builder.commit(1, 10, group="gone", partition=9).answer(None, None, group="gone", partition=9)
    return builder, {}


def by_topic(found: Reconciliation) -> dict[str, Planted]:
    """How many items each kind has on each topic."""
    counts: dict[str, Planted] = {}
    for one in found.anomalies:
        of_topic = counts.setdefault(one.topic, {})
        of_topic[one.kind] = of_topic.get(one.kind, 0) + one.count
    return counts
