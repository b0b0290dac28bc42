"""Counts the topics that steps made again, and what the brokers and the new topics have of the old ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from analysis.judge.history.log_lines import UNREADABLE, logs_of, node_lines, time_ns
from analysis.record.groups import Ints
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from ebbtide.coverage_fact import Fact
from ebbtide.record.steps import StepEntry
from ebbtide.record.topic_lives import TopicLives
from ebbtide.scenario.steps.admin import DeleteTopicStep

FACTS = (
    Fact(
        "steps", "topics-recreated", "topics that a step made under the name of one that a step had deleted, with proof"
    ),
    Fact(
        "steps",
        "records-of-deleted-topics-read",
        "records of a deleted topic that the final read returned from the topic that has its name now",
        "",
        ("topics-recreated",),
    ),
    Fact(
        "steps",
        "replicas-of-deleted-topics-made",
        "replicas that brokers made of a topic after it was deleted, as their logs say",
        "KAFKA-19383",
        ("topics-recreated",),
    ),
)

_MADE = re.compile(
    rb"^(\S+) .*(?:Creating new|Expected) partition \S+ with topic id (\S+?)(?:\.$| to exist, but it was missing)"
)
"""`ReplicaManager.getOrCreatePartition` (3.9.1, 4.0.0, 4.3.1)."""


def count(record: Record) -> Mapping[str, int]:
    """Count the facts."""
    return topic_facts(record, record.split_steps)


def topic_facts(record: Record, steps: Sequence[StepEntry] | None) -> Mapping[str, int]:
    """Count recreated topics, and records of a deleted topic that the final read returned from the new one.

    Only records that certainly went to the deleted topic count. Without a final read of every such topic, how many
    were read is not known and left out. The brokers' logs say which replicas they made of a topic after it was deleted.
    """
    if steps is None:
        return {}
    lives = TopicLives.of_steps(steps)
    made = sum(one.topic_id is not None for name in lives.reused_names for one in lives.recreations(name))
    counts = {"topics-recreated": made}
    manifest = record.manifest
    revived = _made_of_deleted_topics(record, steps, manifest.topology.brokers)
    if revived is not None:
        counts["replicas-of-deleted-topics-made"] = revived
    read = {name.rpartition("-")[0] for name in manifest.final_offsets}
    if not lives.reused_names:
        return counts | {"records-of-deleted-topics-read": 0}
    if manifest.final_consumer is None or not lives.reused_names <= read:
        return counts
    counts["records-of-deleted-topics-read"] = record.seen(ReadAgain)
    return counts


def _made_of_deleted_topics(record: Record, steps: Sequence[StepEntry], brokers: Sequence[int]) -> int | None:
    """Count the replicas that brokers made of a topic after it was deleted.

    None: a broker's log is missing, or no log has a line of any replica that was made.
    """
    deleted = {}
    for step in steps:
        gone = step.figures(DeleteTopicStep.Proof).record
        if step.is_a(DeleteTopicStep) and step.effect_ns is not None and gone is not None:
            deleted[str(gone.topic_id).encode()] = step.effect_ns
    logs, clocks = logs_of(record, "broker", brokers), record.clocks
    if not deleted or not logs:
        return None if deleted else 0
    try:
        made = [match for line in node_lines(record, "broker", brokers) if (match := _MADE.match(line))]
        revived = sum(one[2] in deleted and time_ns(one[1], clocks) > deleted[one[2]] for one in made)
    except UNREADABLE:
        return None
    return revived if made else None


class ReadAgain(Scan[int]):
    """Counts the records of deleted topics that the final read returned from the topics that have their names now."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sends": ("topic", "partition", "value"),
        "polls": ("topic", "partition", "value", "consumer"),
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        lives = TopicLives.of_steps(record.split_steps or ())
        self._sent: dict[str, list[Ints]] = {name: [] for name in lives.reused_names}
        self._there: dict[str, list[Ints]] = {name: [] for name in lives.reused_names}
        self._names = {
            lives.numbered(name, number): name for name in self._sent for number in range(len(lives.recreations(name)))
        }

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter."""
        return bool(self._names)

    def add(self, rows: Rows) -> None:
        """Keep the values of these topics."""
        known = rows.known("value") & (rows.is_final() if rows.table == "polls" else True)
        for (topic, _), here in rows.parts("partition"):
            name = self._names.get(topic) if rows.table == "sends" else topic
            if name in self._sent:
                kept = self._sent if rows.table == "sends" else self._there
                kept[name].append(np.unique(rows.numbers("value")[here[known[here]]]))

    def result(self) -> int:
        """Return the count."""
        none = np.zeros(0, np.int64)
        both = ([np.concatenate([none, *kept[name]]) for kept in (self._sent, self._there)] for name in self._sent)
        return sum(len(np.intersect1d(sent, there)) for sent, there in both)
