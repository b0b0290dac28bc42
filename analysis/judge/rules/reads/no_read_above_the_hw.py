"""KIP-966: a consumer gets the records below the HW only.

What consumers read of a leader epoch is held against the HWs that its leader served in that epoch afterwards. The
leader is asked by another client, so its answer to one client shows what it should not have given to the other one.
Within a leader epoch the HW only rises. So an answer that the leader was asked for after a record was read must have a
HW above the record's offset, if one leader gave both:

- The record has the answer's leader epoch, and no newer epoch had begun when it was read.
- The leader did not register again in that epoch: a broker that starts takes its HW from its disk.
- The HW did not go back in that epoch, which is of another clause.
- The answer is not the first one in the epoch: that one may have a HW that the leader read before it led.

Reads are put together by milliseconds and count from the last one of them on. Answers are, too, and count from the
first question on. So a millisecond can hide a case, and cannot make one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Compared, Finding, Judged, finding
from analysis.record.groups import Ints, added_up
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from analysis.record.timeline import Timeline
from ebbtide.logs.segments import TopicPartition

_MILLISECOND_BITS = 20


class FindReadsAboveHw(Scan[Compared]):
    """Compares what consumers had read of a leader epoch with the HWs that its leader was asked for afterwards."""

    columns: ClassVar[dict[str, tuple[str, ...]]] = {
        "polls": ("topic", "partition", "leader_epoch", "offset", "polled_ns"),
        "watermarks": ("topic", "partition", "broker", "leader_epoch", "high_watermark", "source", "asked_ns"),
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._timeline = record.timeline
        self._read: dict[tuple[TopicPartition, int], list[Ints]] = {}
        self._served: dict[tuple[TopicPartition, int, int | None], list[Ints]] = {}

    def add(self, rows: Rows) -> None:
        """Add a batch of one of the tables."""
        if rows.table == "polls":
            wanted = rows.known("leader_epoch")
            for (topic, partition, epoch), every in rows.parts("partition", "leader_epoch"):
                if len(here := every[wanted[every]]):
                    found = _by_milliseconds(rows.numbers("polled_ns")[here], rows.numbers("offset")[here], np.maximum)
                    self._read.setdefault((TopicPartition(topic, partition), epoch), []).append(found)
            return
        wanted = rows.where_word("source", "list_offsets") & rows.known("asked_ns") & rows.known("leader_epoch")
        for (topic, partition, epoch, broker), every in rows.parts("partition", "leader_epoch", "broker"):
            if len(here := every[wanted[every]]):
                found = _by_milliseconds(
                    rows.numbers("asked_ns")[here], rows.numbers("high_watermark")[here], np.minimum
                )
                self._served.setdefault((TopicPartition(topic, partition), epoch, broker), []).append(found)

    def result(self) -> Compared:
        """Return the reads."""
        above, compared = list[Row](), 0
        for at, epoch in self._read:
            if (served := self._served.get((at, epoch, _only_leader(self._timeline, at, epoch)))) is None:
                continue
            asked_ns, hws = _in_order(served, np.minimum)
            if len(hws) > 1 and (np.diff(hws) >= 0).all():
                compared += 1
                above += self._above(at, epoch, asked_ns[1:], hws[1:])
        return Compared(compared, above)

    def _above(self, at: TopicPartition, epoch: int, asked_ns: Ints, hws: Ints) -> Iterator[Row]:
        """Yield the first read that an answer shows to be above the HW."""
        read_ns, offsets = _in_order(self._read[at, epoch], np.maximum)
        newer = [state.at_ns for state in self._timeline.states(*at) if state.leader_epoch > epoch]
        if newer:
            read_ns = read_ns[: np.searchsorted(read_ns, min(newer))]
        ended = np.searchsorted(read_ns, asked_ns)  # how many reads had ended when the leader was asked
        highest = np.maximum.accumulate(offsets)
        for place in np.flatnonzero(ended):
            if highest[ended[place] - 1] >= hws[place]:
                first = int(np.argmax(offsets >= hws[place]))
                yield {
                    "topic": at.topic,
                    "partition": at.partition,
                    "leader_epoch": epoch,
                    "offset": int(offsets[first]),
                    "read_ns": int(read_ns[first]),
                    "high_watermark": int(hws[place]),
                    "asked_ns": int(asked_ns[place]),
                }
                return


def _only_leader(timeline: Timeline, at: TopicPartition, epoch: int) -> int | None:
    """Return the leader of an epoch; None: it is not known, or it registered again since the epoch began."""
    states = [state for state in timeline.states(*at) if state.leader_epoch == epoch]
    if not states:
        return None
    leader, since_ns = states[0].leader, states[0].at_ns
    again = any(
        one.broker == leader and one.event == "registered" and one.at_ns >= since_ns for one in timeline.brokers
    )
    return None if again else leader


def _by_milliseconds(at_ns: Ints, offsets: Ints, late: np.ufunc) -> Ints:
    """Return one time and one offset of each millisecond, as rows: the last ones, or with `np.minimum` the first."""
    _, found = added_up([at_ns >> _MILLISECOND_BITS], {"at": at_ns, "offset": offsets}, {"at": late, "offset": late})
    return np.stack([found["at"], found["offset"]])


def _in_order(parts: Sequence[Ints], late: np.ufunc) -> Ints:
    """Return times and offsets, one of each millisecond, by time."""
    at_ns, offsets = np.concatenate(parts, axis=1)
    return _by_milliseconds(at_ns, offsets, late)


def _check(judged: Judged) -> Finding:
    found = judged.record.seen(FindReadsAboveHw)
    doubt = "a clock was set" if judged.record.unsure_spans else None
    return finding(exercised=found.cases, violations=found.breaches, doubt=doubt)


RULE = Clause(
    kip="KIP-966",
    check=_check,
    scans=(FindReadsAboveHw,),
    parts=("polls", "watermarks"),
    needed="never",
    compares_times=True,
    unknown_when=(
        "a record was read early, and a clock was set. Only where the leader of an epoch was asked for its HW twice, "
        "was not restarted in that epoch, and its HW did not go back"
    ),
    example="""
        A consumer reads offset 0 at 5 s. The leader is asked at 6 s, and its HW is still 0.
        partitions: leader=1
        polls: 0=1 at=5
        watermarks: high_watermark=0 at=2; high_watermark=0 at=6
        gives: offset=0 high_watermark=0
    """,
)
