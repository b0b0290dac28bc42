"""Topics whose log starts nobody moves: nobody asks for it, and retention finds no record that is old enough.

A run is much shorter than the default of retention.ms, 7 days. So a partition has its first record to the end, unless a
config or a step says otherwise. A clock that a step set is a day ahead or back at most.
"""

from __future__ import annotations

from analysis.record.record import Record
from ebbtide.scenario.steps.admin import DeleteRecordsStep

_DAY_MS = 24 * 3600 * 1000
_DEFAULT_MS = 7 * _DAY_MS
_YOUNG_MS = 4 * _DAY_MS
"""No record looks older in a run of a day at most, in which clocks were a day ahead or back at most."""
_OF_TOPICS = ("retention.bytes", "cleanup.policy")
_OF_BROKERS = tuple(f"log.{name}" for name in (*_OF_TOPICS, "retention.ms", "retention.minutes", "retention.hours"))


def topics_whose_records_stay(record: Record) -> set[str] | None:
    """Return the topics of the scenario's producers whose log starts must stay where they are.

    None: the scenario, the steps or the times of the run are missing.
    """
    known, manifest, steps = record.readable_scenario, record.manifest, record.proven_steps
    if known is None or steps is None or manifest.start_ns is None or manifest.end_ns is None:
        return None
    is_long = manifest.end_ns - manifest.start_ns > _DAY_MS * 1_000_000
    # Through published ports, others delete records, or send some that say to be old.
    if is_long or manifest.wire is not None or any(step.is_a(DeleteRecordsStep) for step in steps):
        return set()
    configs = record.timeline.configs
    if {change.name for change in configs}.union(known.cluster.broker_properties).intersection(_OF_BROKERS):
        return set()
    kept_ms: dict[str, int] = {}
    for change in configs:
        topic = change.resource.removeprefix("topic:")
        if change.name in _OF_TOPICS:
            kept_ms[topic] = 0
        elif change.name == "retention.ms" and change.value not in (None, "-1"):
            kept_ms[topic] = min(int(change.value or 0), kept_ms.get(topic, _DEFAULT_MS))
    return {one.topic for one in known.producers if kept_ms.get(one.topic, _DEFAULT_MS) > _YOUNG_MS}
