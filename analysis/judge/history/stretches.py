"""Collects what clients saw in states for which the protocol has a rule.

These are: below min ISR, while an ISR join is pending, and while RECOVERING. All are stretches in which a leader surely
knew of the state (the module contact).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple

import pyarrow as pa

from analysis.judge.history.contact import LEARNS_WITHIN_NS, Interval, LeaderContact, intervals_below
from analysis.judge.history.evidence import Row
from analysis.record.groups import Bools, Ints
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from ebbtide.record.steps import StepEntry
from ebbtide.record.tables import TABLES
from ebbtide.scenario.steps.table import CUT_KINDS
from ebbtide.scenario.steps.wire import HoldRequestStep


class SeenStretch(NamedTuple):
    """A stretch, and what clients saw in it.

    - `hws`: the leader's earliest answer in it, and the highest HW that was asked for after that answer came. None:
      there are fewer than two answers.
    - `sent`, `acked`: how many records with each acks were sent in it, and sent and acked in it.
    - `read`: how many rows consumers got in it after the earliest answer, at its HW or above.
    """

    interval: Interval
    hws: tuple[Row, Row] | None
    sent: Mapping[int, int]
    acked: Mapping[int, int]
    read: int


class Stretches(NamedTuple):
    """The stretches of each sort."""

    below_min_isr: Sequence[SeenStretch]
    held: Sequence[SeenStretch]
    recovering: Sequence[SeenStretch]


class _Open:
    """A stretch while the rows are read."""

    def __init__(self, interval: Interval) -> None:
        self.interval = interval
        self.answers: list[pa.Table] = []
        self.sent: Counter[int] = Counter()
        self.acked: Counter[int] = Counter()
        self.read = 0

    @property
    def seen(self) -> SeenStretch:
        """The stretch; all rows are read by now."""
        return SeenStretch(self.interval, self.hws, self.sent, self.acked, self.read)

    def covers(self, times: Ints) -> Bools:
        """Return which of some times are in the stretch."""
        found: Bools = times >= self.interval.start_ns
        return found if self.interval.end_ns is None else found & (times < self.interval.end_ns)

    def add_answers(self, rows: Rows, here: Ints) -> None:
        """Add the leader's answers that were asked for and came in the stretch."""
        interval, asked = self.interval, rows.numbers("asked_ns")[here]
        of_leader = (rows.numbers("broker")[here] == interval.leader) & rows.known("leader_epoch")[here]
        of_leader &= rows.numbers("leader_epoch")[here] == interval.leader_epoch
        of_leader &= rows.where_word("source", "list_offsets")[here] & rows.known("asked_ns")[here]
        found = of_leader & (asked >= interval.start_ns)
        if interval.end_ns is not None:
            found &= rows.numbers("at_ns")[here] < interval.end_ns
        if found.any():
            self.answers.append(rows.at(here[found]))

    @cached_property
    def hws(self) -> tuple[Row, Row] | None:
        """The two answers; all are read by now."""
        rows = [row for table in self.answers for row in table.to_pylist()]
        first = min(rows, key=lambda row: row["asked_ns"], default=None)
        later = [row for row in rows if first is not None and row["asked_ns"] > first["at_ns"]]
        return (first, max(later, key=lambda row: row["high_watermark"])) if first is not None and later else None

    def add_sends(self, rows: Rows, here: Ints) -> None:
        """Count the records that were sent in the stretch."""
        sent = here[self.covers(rows.numbers("sent_ns")[here])]
        done = rows.where_word("status", "acked") & rows.known("done_ns")
        acked = sent[done[sent] & self.covers(rows.numbers("done_ns")[sent])]
        for counts, some in ((self.sent, sent), (self.acked, acked)):
            counts.update(rows.numbers("acks")[some].tolist())

    def add_polls(self, rows: Rows, here: Ints) -> None:
        """Count the rows that consumers got at the first HW or above."""
        if self.hws is not None:
            first, at_ns = self.hws[0], rows.numbers("polled_ns")[here]
            above = (rows.numbers("offset")[here] >= first["high_watermark"]) & (at_ns > first["at_ns"])
            self.read += int((above & self.covers(at_ns)).sum())


class StretchesSeen(Scan[Stretches]):
    """Reads what clients saw in all stretches. A batch is compared only with the stretches that touch its times."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "watermarks": tuple(TABLES["watermarks"].names),
        "sends": ("topic", "partition", "acks", "status", "sent_ns", "done_ns"),
        "polls": ("topic", "partition", "offset", "polled_ns"),
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        contact = LeaderContact.of(record)
        every = (
            intervals_below(record, contact),
            _while_requests_are_held(record, contact.steps),
            _while_recovering(record),
        )
        self._open = [[_Open(one) for one in intervals] for intervals in every]
        self._by_place: dict[tuple[str, int], list[_Open]] = {}
        for one in (one for some in self._open for one in some):
            self._by_place.setdefault((one.interval.topic, one.interval.partition), []).append(one)

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter."""
        return bool(self._by_place)

    def add(self, rows: Rows) -> None:
        """Add a batch to each stretch that it touches."""
        time = {"watermarks": "at_ns", "sends": "sent_ns", "polls": "polled_ns"}[rows.table]
        for place, here in rows.parts("partition"):
            for one in self._by_place.get(place, ()):
                times = rows.numbers(time)[here]
                begins = one.interval.end_ns is None or times.min() < one.interval.end_ns
                if begins and times.max() >= one.interval.start_ns:
                    match rows.table:
                        case "watermarks":
                            one.add_answers(rows, here)
                        case "sends":
                            one.add_sends(rows, here)
                        case _:
                            one.add_polls(rows, here)

    def result(self) -> Stretches:
        """Return the stretches."""
        return Stretches(*([one.seen for one in some] for some in self._open))


def _while_requests_are_held(record: Record, steps: Sequence[StepEntry]) -> list[Interval]:
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
                found.append(Interval.of(state, start_ns, step.healed_ns, metadata_offset=state.metadata_offset))
    return found


def _while_recovering(record: Record) -> list[Interval]:
    """Return the stretches in which a leader led a RECOVERING partition and knew of it.

    A stretch ends with the next record of the partition.
    """
    return [
        Interval.of(before, before.at_ns + LEARNS_WITHIN_NS, after.at_ns, metadata_offset=before.metadata_offset)
        for before, after in record.timeline.pairs()
        if before.recovering and before.leader >= 0 and before.at_ns + LEARNS_WITHIN_NS < after.at_ns
    ]
