"""KIP-101: a follower truncates its log where the leader epochs part, so it keeps what is committed.

A follower that truncates to its HW, which lags, takes committed records from its log. It fetches them again, so that
nothing is lost until the leader fails. The lines of each broker's log say to which offset it truncated, and are held
against what had been acked by then. Each leader has what is committed, unless a disk lost it, an election left ISR and
ELR, or the ELR was wrong. So these must stay:

- They were acked with acks=all before the cut, and sent after all such events.
- The replica had them: it was in the ISR from the state before they were sent until they were acked, and it has been a
  replica of the partition ever since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from analysis.causes.evidence import NEVER
from analysis.judge.history.evidence import Row
from analysis.judge.history.kept_topics import topics_whose_records_stay
from analysis.judge.history.log_lines import Truncation, truncations
from analysis.judge.rules.clause import Clause, Finding, Judged, finding
from analysis.judge.rules.lossy import elections_from_a_wrong_elr
from analysis.record.clock_steps import CLOCKS_AGREE_NS
from analysis.record.elections import ElectionEvent
from analysis.record.groups import Ints
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from ebbtide.record.rows import PartitionState


class CutRecords(NamedTuple):
    """How many truncations there were; of each that cut committed records off, the first one and how many."""

    truncations: int
    found: Sequence[tuple[Row, int]]


class _CutOff:
    """A truncation, and the spells in which its replica took each committed record."""

    def __init__(self, record: Record, cut: Truncation, states: Sequence[PartitionState]) -> None:
        self._cut = cut
        self._until_ns = cut.at_ns - CLOCKS_AGREE_NS
        self._since_ns = _clean_since_ns(record, cut, states) + CLOCKS_AGREE_NS
        self._spells = _in_isr(states, cut.broker)
        self._first: Row | None = None
        self.count = 0

    def add(self, rows: Rows, here: Ints) -> None:
        """Count the records that the replica had and cut off."""
        acked = rows.where_word("status", "acked") & (rows.numbers("acks") == -1)
        offset, sent, done = rows.numbers("offset"), rows.numbers("sent_ns"), rows.numbers("done_ns")
        cut = acked & rows.known("offset") & rows.known("done_ns") & (offset >= self._cut.offset)
        cut &= (sent > self._since_ns) & (done < self._until_ns)
        had = np.zeros(rows.count, np.bool_)
        for begin_ns, end_ns in self._spells:
            had |= (sent > begin_ns + CLOCKS_AGREE_NS) & (done < end_ns - CLOCKS_AGREE_NS)
        found = here[(cut & had)[here]]
        self.count += len(found)
        if len(found):
            at = found[np.argmin(offset[found])]
            row = {"offset": int(offset[at]), "sent_ns": int(sent[at]), "acked_ns": int(done[at])}
            self._first = min(self._first or row, row, key=lambda one: int(str(one["offset"])))

    @property
    def first(self) -> Row:
        """The first record that was cut off."""
        about = {"broker": self._cut.broker, "truncated_to": self._cut.offset, "truncated_ns": self._cut.at_ns}
        return {**(self._first or {}), **about}


class FindCutRecords(Scan[CutRecords]):
    """Compares what brokers cut off their logs with what had been acked."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sends": ("topic", "partition", "acks", "status", "offset", "sent_ns", "done_ns"),
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._cuts: dict[tuple[str, int], list[_CutOff]] = {}
        places = {f"{topic}-{partition}": (topic, partition) for topic, partition in _judged_places(record)}
        # Where a log start moved, a replica that is far behind deletes its whole log, and rightly.
        kept = topics_whose_records_stay(record) or ()
        for broker in record.manifest.topology.brokers if places else ():
            whole = truncations(record, broker, of_segments=True)
            whole = [one for one in whole if one.partition.rpartition("-")[0] in kept]
            for one in (*truncations(record, broker), *whole):
                if (place := places.get(one.partition)) is not None:
                    states = record.timeline.states(*place)
                    self._cuts.setdefault(place, []).append(_CutOff(record, one, states))

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter."""
        return bool(self._cuts)

    def add(self, rows: Rows) -> None:
        """Add a batch of sends."""
        for place, here in rows.parts("partition"):
            for one in self._cuts.get(place, ()):
                one.add(rows, here)

    def result(self) -> CutRecords:
        """Return the records."""
        every = [(place, one) for place, cuts in self._cuts.items() for one in cuts]
        found = [({"topic": topic, "partition": partition, **one.first}, one) for (topic, partition), one in every]
        return CutRecords(len(every), [(row, one.count) for row, one in found if one.count])


def _judged_places(record: Record) -> list[tuple[str, int]]:
    """Return the partitions with elections; none where a step may have hidden what a log lost, or moved it."""
    if record.log_losses is None or (record.manifest.log_dirs or 1) > 1 or "partitions" in record.timeline.missing:
        return []
    elected = {(one.after.topic, one.after.partition) for one in record.elections}
    return [place for place in elected if place[0] not in record.timeline.reused_names]


def _clean_since_ns(record: Record, cut: Truncation, states: Sequence[PartitionState]) -> int:
    """Return when the last event before a truncation was over that explains it."""
    topic, partition = states[0].topic, states[0].partition
    losses = [one for one in record.log_losses or () if one.fired_ns <= cut.at_ns and one.costs(topic, partition)]
    if losses and record.protocol.has_kip_903(states[0].metadata_offset) is not True:
        return NEVER  # a late AlterPartition may have let an empty replica into the ISR, at any time since
    ends = [loss.done_ns for loss in losses]
    ends += [
        one.after.at_ns
        for one in record.elections
        if (one.after.topic, one.after.partition) == (topic, partition)
        and (one.is_from_outside or one.removes_isr)
        and one.after.at_ns <= cut.at_ns + CLOCKS_AGREE_NS
    ]
    ends += [state.at_ns for state in states if state.at_ns <= cut.at_ns and cut.broker not in state.replicas]
    return max(ends, default=0)


def _in_isr(states: Sequence[PartitionState], broker: int) -> list[tuple[int, int]]:
    """Return the spells in which a replica was in the ISR, each without its first state, unless that is the first."""
    found: list[tuple[int, int]] = []
    begin: int | None = None
    for number, state in enumerate(states):
        before = states[number - 1] if number else state
        is_in = broker in state.isr and not state.lacks_record_since(before)
        if begin is not None and not is_in:
            found.append((begin, state.at_ns))
            begin = None
        elif begin is None and is_in and (not number or broker in before.isr):
            begin = state.at_ns
    return found if begin is None else [*found, (begin, NEVER)]


def _check(judged: Judged) -> Finding:
    cuts, doubt = judged.record.seen(FindCutRecords), judged.record.why_metadata_may_be_undone
    elections = elections_from_a_wrong_elr(judged) if cuts.found else []
    found = [(row, count) for row, count in cuts.found if not any(_explains(one, row) for one in elections)]
    rows, cases = [row for row, _ in found], sum(count for _, count in found)
    return finding(exercised=cuts.truncations, violations=rows, cases=cases, doubt=doubt)


def _explains(election: ElectionEvent, cut: Row) -> bool:
    """Whether a record may have been cut off because that leader lacked it: sent before its election, cut after it."""
    after, sent_ns, cut_ns = election.after, int(str(cut["sent_ns"])), int(str(cut["truncated_ns"]))
    is_between = sent_ns - CLOCKS_AGREE_NS <= after.at_ns <= cut_ns + CLOCKS_AGREE_NS
    return is_between and (after.topic, after.partition) == (cut["topic"], cut["partition"])


RULE = Clause(
    kip="KIP-101",
    check=_check,
    scans=(FindCutRecords,),
    parts=("sends",),
    needed="never",
    compares_times=True,
    unknown_when=(
        "`sends/` is not as the run left it, or a record was cut off and a controller lost its log. Only where the "
        "logs of brokers are there and say that one truncated, not with several log directories or a topic that was "
        "made again"
    ),
    example="""
        A record is acked at 20 s, with all replicas in the ISR. Broker 2 truncates its log to offset 0 at 40 s.
        partitions: leader=1; at=30 leader=3 isr=2,3
        sends: 0=1 at=20
        logs: node=broker-2 at=40 says=[UnifiedLog_partition=t-0,_dir=/kafka]_Truncating_to_offset_0
        gives: offset=0 broker=2 truncated_to=0
    """,
)
