"""KIP-101: a follower takes over the HW that its leader sends it with the records that it fetches.

A leader had served a HW. After that, a record was sent, and acked with acks=all. After that, a second one was sent, and
acked, too. So each member of the ISR has fetched the first record, and then the second one with a HW that is not below
the served one. When the next leader epoch begins, such a follower logs its HW. It counts if its process went on, it was
in the ISR in each state of the epoch and right before, each election was clean, and no disk lost records.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pyarrow.compute as pc

from analysis.judge.history.evidence import Row
from analysis.judge.history.log_lines import EpochStart, clean_epoch_starts
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.record.clock_steps import CLOCKS_AGREE_NS
from analysis.record.files import of_partition
from analysis.record.record import Record
from ebbtide.logs.segments import TopicPartition


def _check(judged: Judged) -> Finding:
    record = judged.record
    cases = Cases()
    for at, line, until_ns in _of_followers(record):
        row: Row | None = None
        if (served := _served_above(record, at, line)) is not None:
            hw, at_ns = served
            first_ns = _first_acked(record, at, at_ns, until_ns)
            if first_ns is not None and _first_acked(record, at, first_ns, until_ns) is not None:
                row = {**at._asdict(), "broker": line.broker, "leader_epoch": line.epoch_before, "served": hw}
                row |= {"served_ns": at_ns, "high_watermark": line.high_watermark, "at_ns": line.at_ns}
        cases.add(row)
    return cases.finding(record.why_metadata_may_be_undone)


def _of_followers(record: Record) -> Iterator[tuple[TopicPartition, EpochStart, int]]:
    """Yield the lines of followers that were in the ISR of the epoch before, and until when it surely was in force."""
    for at, lines in clean_epoch_starts(record).items():
        states = record.timeline.states(*at)
        for line in lines:
            epoch = [number for number, one in enumerate(states) if one.leader_epoch == line.epoch_before]
            if not epoch or states[epoch[0]].leader in (line.broker, -1):
                continue
            later = [one.at_ns for one in states[epoch[-1] + 1 :]]
            before = states[max(epoch[0] - 1, 0) : epoch[-1] + 1]
            is_whole = not any(after.lacks_record_since(one) for one, after in pairwise(before))
            if later and is_whole and all(line.broker in one.isr for one in before):
                yield at, line, min(later[0], line.at_ns) - CLOCKS_AGREE_NS


def _served_above(record: Record, at: TopicPartition, line: EpochStart) -> tuple[int, int] | None:
    """Return the first HW above that of a line that the leader before had served, and when its answer was there."""
    where = of_partition(*at) & (pc.field("source") == "list_offsets")
    where &= (pc.field("leader_epoch") == line.epoch_before) & (pc.field("high_watermark") > line.high_watermark)
    rows = [
        row for batch in record.batches("watermarks", ["high_watermark", "at_ns"], where) for row in batch.to_pylist()
    ]
    first = min(rows, key=lambda one: one["at_ns"], default=None)
    return None if first is None else (first["high_watermark"], first["at_ns"])


def _first_acked(record: Record, at: TopicPartition, since_ns: int, until_ns: int) -> int | None:
    """Return when the first record was acked of those sent and acked with acks=all between two times."""
    where = of_partition(*at) & (pc.field("acks") == -1) & (pc.field("status") == "acked")
    where &= (pc.field("sent_ns") > since_ns) & (pc.field("done_ns") < until_ns)
    found = [row for batch in record.batches("sends", ["done_ns"], where) for row in batch.to_pylist()]
    return min((row["done_ns"] for row in found), default=None)


RULE = Clause(
    kip="KIP-101",
    check=_check,
    parts=("watermarks", "sends"),
    needed="never",
    compares_times=True,
    unknown_when=(
        "`watermarks/` or `sends/` is not as the run left it, or a controller lost its log. Only where the logs of "
        "brokers are there, and no step took records"
    ),
    example="""
        Leader 1 serves the HW 5 at 10 s. Two records are acked after that. At 41 s the follower 2 has the HW 0 still.
        partitions: leader=1; at=40 leader=2 isr=2,3
        sends: 5=1 at=20; 6=2 at=25
        watermarks: high_watermark=5 at=10
        logs: node=broker-2 at=41
            says=Leader_t-0_starts_at_leader_epoch_1_from_offset_7_with_partition_epoch_1,_high_watermark_0._The_previous_leader_epoch_was_0.
        gives: broker=2 served=5 high_watermark=0
    """,
)
