"""Counts what clients saw in states for which the protocol has a rule.

These are: below min ISR, while an ISR join is pending, and while RECOVERING. All are stretches in
which a leader surely knew of the state (`LeaderContact`). Below min ISR acks=all must be refused, acks=0
and acks=1 are answered, and whether the HW moves depends on the release. While the leader's
AlterPartition is held on the wire, the controller may grant it at any time, so the HW must wait for
the maximal ISR. While RECOVERING, KIP-704 wants a leader to answer neither producers nor consumers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from analysis.judge.history.contact import (
    LEARNS_WITHIN_NS,
    Interval,
    first_and_highest,
)
from analysis.judge.rules.judged import Judged
from analysis.record.elections import elections_of
from analysis.record.files import of_partition
from analysis.record.record import Record
from ebbtide.coverage_fact import About, Fact
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.table import CUT_KINDS
from ebbtide.scenario.steps.wire import HoldRequestStep

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

_ACKS = {"0": 0, "1": 1, "all": -1}


def client_facts(judged: Judged) -> Counter[str]:
    """Count the facts; facts that need a missing table are left out.

    Sends and polls are read once for all stretches, batch by batch; memory does not grow with their
    number.
    """
    facts: Counter[str] = Counter()
    record = judged.record
    for suffix, intervals in (
        (BELOW, judged.below_min_isr),
        (HELD, _intervals_of_held_requests(record, judged.contact.steps)),
        (RECOVERING, _recovering_intervals(record)),
    ):
        sends = _sends_within(record, intervals) if record.has("sends") else None
        if sends is not None:
            _count_sends(sends, suffix, facts)
        _count_watermarks(record, intervals, sends, suffix, facts)
    if record.has("polls"):
        facts["consumers-read-past-an-election"] = len(_read_past_an_election(record))
    return facts


class _Sends(NamedTuple):
    """The sends of one stretch by acks, and those acked before the stretch ended."""

    sent: Counter[int]
    acked: Counter[int]


def _sends_within(record: Record, intervals: Sequence[Interval]) -> list[_Sends]:
    """Return the sends of each stretch, in the order of `intervals`."""
    found = [_Sends(Counter(), Counter()) for _ in intervals]
    columns = ["acks", "status", "done_ns"]
    for at, sent in _rows_within(record, "sends", "sent_ns", intervals, columns):
        done = sent.filter(_within(intervals[at], "done_ns") & (pc.field("status") == "acked"))
        for rows, by_acks in ((sent, found[at].sent), (done, found[at].acked)):
            by_acks.update({one["values"]: one["counts"] for one in pc.value_counts(rows["acks"]).to_pylist()})
    return found


def _count_sends(sends: Sequence[_Sends], suffix: str, facts: Counter[str]) -> None:
    """Count the sends that were acked within their stretch, and the others.

    `acked-`: sent and acked within a stretch. `not-acked-`: sent within it, and not acked before it
    ended.
    """
    for word, acks in _ACKS.items():
        acked = sum(one.acked[acks] for one in sends)
        facts[f"acked-{suffix}-acks-{word}"] = acked
        facts[f"not-acked-{suffix}-acks-{word}"] = sum(one.sent[acks] for one in sends) - acked


def _count_watermarks(
    record: Record, intervals: Sequence[Interval], sends: Sequence[_Sends] | None, suffix: str, facts: Counter[str]
) -> None:
    """Count the stretches in which the leader's HW was seen at least twice.

    In such a stretch the leader served one HW only although its log grew, or it served a higher one
    later. `read-`: rows that a consumer got within a stretch, at or above the HW that was served at
    its start.
    """
    if not record.has("watermarks"):
        return
    seen = {at: pair for at, one in enumerate(intervals) if (pair := first_and_highest(record, one)) is not None}
    moved = {at for at, (first, highest) in seen.items() if highest["high_watermark"] > first["high_watermark"]}
    facts[f"hw-observed-{suffix}"] = len(seen)
    facts[f"hw-advanced-{suffix}"] = len(moved)
    if sends is not None:
        facts[f"hw-frozen-{suffix}"] = sum(sends[at].acked[_ACKS["1"]] > 0 for at in seen.keys() - moved)
    if record.has("polls"):
        facts[f"read-{suffix}"] = 0
        for at, polled in _rows_within(record, "polls", "polled_ns", intervals, ["offset"]):
            if at in seen:
                first, _ = seen[at]
                above = (pc.field("offset") >= first["high_watermark"]) & (pc.field("polled_ns") > first["at_ns"])
                facts[f"read-{suffix}"] += polled.filter(above).num_rows


def _read_past_an_election(record: Record) -> set[int]:
    """Return the consumers that read across an election.

    Such a consumer's first record of a partition came before an election, and a later record has
    the election's epoch. The final read does not count: it begins when all is over.
    """
    first_ns: dict[tuple[str, int, int], int] = {}
    newest: dict[tuple[str, int, int], int] = {}
    by = ["topic", "partition", "consumer"]
    placed = pc.field("leader_epoch").is_valid()
    for batch in record.batches("polls", [*by, "polled_ns", "leader_epoch"], placed):
        groups = pa.Table.from_batches([batch]).group_by(by)
        for row in groups.aggregate([("polled_ns", "min"), ("leader_epoch", "max")]).to_pylist():
            who = (row["topic"], row["partition"], row["consumer"])
            first_ns[who] = min(row["polled_ns_min"], first_ns.get(who, row["polled_ns_min"]))
            newest[who] = max(row["leader_epoch_max"], newest.get(who, -1))
    elections = {
        place: [one for one in elections_of(record.timeline, *place) if one.changes_leader]
        for place in {who[:2] for who in newest}
    }
    return {
        who[2]
        for who, since_ns in first_ns.items()
        if any(since_ns < one.after.at_ns and newest[who] >= one.epoch for one in elections[who[:2]])
    } - {record.manifest.final_consumer}


def _intervals_of_held_requests(record: Record, steps: Sequence[StepEntry]) -> list[Interval]:
    """Return the stretches in which a leader's AlterPartition was held.

    A stretch begins with the last cut, because a cut may end fetching.
    """
    found = []
    for step in steps:
        if not step.is_a(HoldRequestStep) or step.asked.api != "AlterPartition":
            continue
        if step.effect_ns is None or step.healed_ns is None:
            continue
        cuts = [
            cut.effect_ns
            for cut in steps
            if cut.step in CUT_KINDS and cut.effect_ns is not None and step.effect_ns <= cut.effect_ns < step.healed_ns
        ]
        start_ns = max([step.effect_ns, *cuts]) + LEARNS_WITHIN_NS
        for topic, partition in record.timeline.partitions:
            state = record.timeline.state_at_time(topic, partition, step.effect_ns)
            if state is not None and state.leader in step.nodes and start_ns < step.healed_ns:
                found.append(
                    Interval(
                        topic=topic,
                        partition=partition,
                        leader=state.leader,
                        leader_epoch=state.leader_epoch,
                        metadata_offset=state.metadata_offset,
                        min_isr=0,
                        isr=state.isr,
                        start_ns=start_ns,
                        end_ns=step.healed_ns,
                    )
                )
    return found


def _recovering_intervals(record: Record) -> list[Interval]:
    """Return the stretches in which a leader led a RECOVERING partition and knew of it.

    A stretch ends with the next record of the partition.
    """
    return [
        Interval(
            topic=before.topic,
            partition=before.partition,
            leader=before.leader,
            leader_epoch=before.leader_epoch,
            metadata_offset=before.metadata_offset,
            min_isr=0,
            isr=before.isr,
            start_ns=before.at_ns + LEARNS_WITHIN_NS,
            end_ns=after.at_ns,
        )
        for before, after in record.timeline.pairs()
        if before.recovering and before.leader >= 0 and before.at_ns + LEARNS_WITHIN_NS < after.at_ns
    ]


def _within(interval: Interval, column: str) -> pc.Expression:
    where = of_partition(interval.topic, interval.partition) & (pc.field(column) >= interval.start_ns)
    return where if interval.end_ns is None else where & (pc.field(column) < interval.end_ns)


def _rows_within(
    record: Record, table: str, column: str, intervals: Sequence[Interval], columns: Sequence[str]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (index in `intervals`, rows whose time `column` lies in that interval).

    The table is read once. A batch is compared only with the stretches that touch its times:
    clients write their rows roughly in that order.
    """
    if not intervals:
        return
    since = pc.field(column) >= min(one.start_ns for one in intervals)
    for batch in record.batches(table, ["topic", "partition", column, *columns], since):
        times = pc.min_max(batch[column]).as_py()
        for at, one in enumerate(intervals):
            if not batch.num_rows or one.start_ns > times["max"]:
                continue
            if one.end_ns is None or one.end_ns > times["min"]:
                yield at, batch.filter(_within(one, column))
