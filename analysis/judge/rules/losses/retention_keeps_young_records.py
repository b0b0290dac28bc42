"""Retention deletes no record that is younger than retention.ms, by the broker's own clock.

A log start moves up only where somebody deletes records, or retention or compaction does. A run is much shorter than
the default of retention.ms, 7 days. So a partition has its first record to the end, unless a config or a step says
otherwise. A clock that a step set is a day ahead or back at most.

Topics to which other clients send are not judged, because they choose the times of their records.
"""

from __future__ import annotations

from analysis.judge.rules.clause import Cases, Clause, Finding, Judged, unknown_finding
from analysis.record.record import Record
from ebbtide.logs.segments import TopicPartition
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


def _check(judged: Judged) -> Finding:
    record = judged.record
    kept = topics_whose_records_stay(record)
    if kept is None:
        return unknown_finding("the scenario, the steps or the times of the run are missing")
    cases = Cases()
    for name, end in record.manifest.final_offsets.items():
        at = TopicPartition.parse(name)
        if at.topic in kept:
            row = {"topic": at.topic, "partition": at.partition, "log_start": end.log_start}
            cases.add(row if end.log_start > 0 else None)
    return cases.finding("a step took records from a log" if record.log_losses else None)


RULE = Clause(
    kip="Kafka's promise",
    check=_check,
    needed="never",
    unknown_when="records are missing at the start of a log, and a step took records from a log. Only without the step "
    "`delete-records` and published ports, and where no config makes retention delete records of the last four days",
    example="""
        The final log of a topic with the default retention begins at 300, a minute after the first record was sent.
        setting: sends log_start=300
        sends: 0=1
        gives: log_start=300
    """,
)
