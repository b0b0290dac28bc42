"""Retention deletes no record that is younger than retention.ms, by the broker's own clock.

A log start moves up only where somebody deletes records, or retention or compaction does. So a partition has its first
record to the end, unless a config or a step says otherwise (`analysis.judge.history.kept_topics`).

Topics to which other clients send are not judged, because they choose the times of their records.
"""

from __future__ import annotations

from analysis.judge.history.kept_topics import topics_whose_records_stay
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged, unknown_finding
from ebbtide.logs.segments import TopicPartition


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
