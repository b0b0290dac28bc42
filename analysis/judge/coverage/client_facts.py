"""Counts what clients saw in states for which the protocol has a rule.

These are: below min ISR, while an ISR join is pending, and while RECOVERING. All are stretches in
which a leader surely knew of the state (`contact.LeaderContact`). Below min ISR acks=all must be refused, acks=0
and acks=1 are answered, and whether the HW moves depends on the release. While the leader's
AlterPartition is held on the wire, the controller may grant it at any time, so the HW must wait for
the maximal ISR. While RECOVERING, KIP-704 wants a leader to answer neither producers nor consumers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Final

from analysis.judge.history.stretches import SeenStretch, StretchesSeen
from analysis.record.elections import elections_of
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from ebbtide.coverage_fact import About, Fact
from ebbtide.record.manifest import ACKS

BELOW: Final = "below-min-isr"
HELD: Final = "while-alter-partition-held"
RECOVERING: Final = "while-recovering"


def _of_stretches(suffix: About, clause: str) -> tuple[Fact, ...]:
    """Return the facts about what clients saw within stretches of one kind.

    Without such a stretch, clients can see nothing in it.
    """
    observed = f"hw-observed-{suffix}"
    sends = [
        Fact(suffix, f"{word}-{suffix}-acks-{acks}", counts.format(acks), clause, (f"{other}-{suffix}-acks-{acks}",))
        for acks in ("0", "1", "all")
        for word, other, counts in (
            ("acked", "not-acked", "records sent with acks={} and acked within such a stretch"),
            ("not-acked", "acked", "records sent with acks={} within such a stretch, and not acked in it"),
        )
    ]
    return (
        *sends,
        Fact(suffix, observed, "such stretches in which the leader's HW was seen twice or more", clause),
        Fact(
            suffix,
            f"hw-frozen-{suffix}",
            "stretches so observed in which the leader took records with acks=1 and served one HW",
            clause,
            (observed,),
        ),
        Fact(suffix, f"hw-advanced-{suffix}", "stretches so observed in which the HW moved", clause, (observed,)),
        Fact(
            suffix,
            f"read-{suffix}",
            "rows that consumers got in stretches so observed, at or above the HW seen first",
            clause,
            (observed,),
        ),
    )


FACTS = (
    Fact(
        "clients",
        "consumers-read-past-an-election",
        "consumers that returned records before an election of the partition, and then some that were written after it",
    ),
    *_of_stretches(BELOW, "KIP-966, HW 1 and 5"),
    *_of_stretches(HELD, "KIP-966, HW 3"),
    *_of_stretches(RECOVERING, "KIP-704, Topic Partition Leader 3"),
)


def count(record: Record) -> Counter[str]:
    """Count the facts; facts that need a missing table are left out."""
    facts: Counter[str] = Counter()
    stretches = record.seen(StretchesSeen)
    for suffix, some in (
        (BELOW, stretches.below_min_isr),
        (HELD, stretches.held),
        (RECOVERING, stretches.recovering),
    ):
        if record.has("sends"):
            _count_sends(some, suffix, facts)
        if record.has("watermarks"):
            _count_watermarks(record, some, suffix, facts)
    if record.has("polls"):
        facts["consumers-read-past-an-election"] = len(record.seen(ReadPastElections))
    return facts


def _count_sends(stretches: Sequence[SeenStretch], suffix: str, facts: Counter[str]) -> None:
    """Count the sends that were acked within their stretch, and the others.

    `acked-`: sent and acked within a stretch. `not-acked-`: sent within it, and not acked before it
    ended.
    """
    for word, acks in ACKS.items():
        acked = sum(one.acked.get(acks, 0) for one in stretches)
        facts[f"acked-{suffix}-acks-{word}"] = acked
        facts[f"not-acked-{suffix}-acks-{word}"] = sum(one.sent.get(acks, 0) for one in stretches) - acked


def _count_watermarks(record: Record, stretches: Sequence[SeenStretch], suffix: str, facts: Counter[str]) -> None:
    """Count the stretches in which the leader's HW was seen at least twice.

    In such a stretch the leader served one HW only although its log grew, or it served a higher one
    later. `read-`: rows that a consumer got within a stretch, at or above the HW that was served at
    its start.
    """
    seen = [(one, one.hws[1]["high_watermark"] > one.hws[0]["high_watermark"]) for one in stretches if one.hws]
    facts[f"hw-observed-{suffix}"] = len(seen)
    facts[f"hw-advanced-{suffix}"] = sum(moved for _, moved in seen)
    if record.has("sends"):
        facts[f"hw-frozen-{suffix}"] = sum(one.acked.get(ACKS["1"], 0) > 0 for one, moved in seen if not moved)
    if record.has("polls"):
        facts[f"read-{suffix}"] = sum(one.read for one, _ in seen)


class ReadPastElections(Scan[Collection[int]]):
    """Finds the consumers that read across an election.

    Such a consumer's first record of a partition came before an election, and a later record has
    the election's epoch. The final read does not count: it begins when all is over.
    """

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "polls": ("topic", "partition", "consumer", "polled_ns", "leader_epoch")
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._record = record
        self._seen: dict[tuple[str, int, int], tuple[int, int]] = {}

    def add(self, rows: Rows) -> None:
        """Keep when each consumer got its first row of a partition, and the newest epoch of its rows there."""
        known, polled, epoch = rows.known("leader_epoch"), rows.numbers("polled_ns"), rows.numbers("leader_epoch")
        for who, every in rows.parts("partition", "consumer"):
            if len(here := every[known[every]]):
                first, newest = int(polled[here].min()), int(epoch[here].max())
                before = self._seen.get(who, (first, newest))
                self._seen[who] = min(first, before[0]), max(newest, before[1])

    def result(self) -> Collection[int]:
        """Return the consumers."""
        timeline = self._record.timeline
        places = {(topic, partition) for topic, partition, _ in self._seen}
        moved = {place: [one for one in elections_of(timeline, *place) if one.changes_leader] for place in places}
        return {
            consumer
            for (topic, partition, consumer), (since_ns, newest) in self._seen.items()
            if any(since_ns < one.after.at_ns and newest >= one.epoch for one in moved[topic, partition])
        } - {self._record.manifest.final_consumer}
