"""KIP-966: a leader takes a record with acks=all only while the ISR has at least min ISR members.

A leader refuses such a record before it appends it, so the record must be in no log. What clients sent while the ISR
was below min ISR, and the leader surely knew, is held against the replicas' logs. The order of the leader's log says
when a record was appended, whatever was answered and however often it was sent:

- Not before a record at its offset or below was sent, one that stands under the same leader epoch.
- Not after a record at its offset or above had been acked, again one of the same epoch. Nor after the leader had
  served a HW above it.

So a record counts if the first was sent after the leader knew (the module contact), and the second came before the
ISR grew again. If it never did in that epoch, nothing more is asked. A leader that registered again in its epoch says
nothing: its log may have lost records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from analysis.causes.evidence import NEVER
from analysis.judge.history.contact import Interval, LeaderContact, intervals_below
from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding, unknown_finding
from analysis.record.clock_steps import CLOCKS_AGREE_NS
from analysis.record.groups import Ints
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan

_SENT_AGAIN_NS = 20_000_000_000
"""How long before the stretch a record was sent that may have been sent again in it."""


class AppendsBelow(NamedTuple):
    """In how many stretches records with acks=all were sent, the first that was appended in each, and how many were."""

    exercised: int
    first: Sequence[Row]
    appended: int


class _LogBelow:
    """A stretch below min ISR; `grown_ns`: when the ISR grew again in that epoch, at the earliest. None: never."""

    def __init__(self, interval: Interval, grown_ns: int | None) -> None:
        self.interval = interval
        self._from_ns = interval.start_ns + CLOCKS_AGREE_NS
        self._until_ns = NEVER if grown_ns is None else grown_ns - CLOCKS_AGREE_NS
        self._served = 0
        self._sent: list[Ints] = [np.empty((4, 0), np.int64)]
        self._stands: list[Ints] = [np.empty((2, 0), np.int64)]

    def add_answers(self, rows: Rows, here: Ints) -> None:
        """Keep the highest HW that the leader served before the ISR grew."""
        of_leader = rows.where_word("source", "list_offsets") & rows.known("leader_epoch")
        of_leader &= rows.numbers("leader_epoch") == self.interval.leader_epoch
        of_leader &= (rows.numbers("broker") == self.interval.leader) & (rows.numbers("at_ns") < self._until_ns)
        self._served = max(self._served, int(rows.numbers("high_watermark")[here[of_leader[here]]].max(initial=0)))

    def add_sends(self, rows: Rows, here: Ints) -> None:
        """Keep what was sent while the leader knew, and what may have been sent again then."""
        sent, acks = rows.numbers("sent_ns"), rows.numbers("acks")
        kept = (sent >= self._from_ns) | ((sent >= self._from_ns - _SENT_AGAIN_NS) & (acks == -1))
        here = here[(kept & (sent < self._until_ns))[here]]
        in_time = rows.where_word("status", "acked") & rows.known("done_ns") & rows.known("offset") & (acks != 0)
        in_time &= rows.numbers("done_ns") < self._until_ns
        columns = rows.numbers("value"), acks, sent, np.where(in_time, rows.numbers("offset"), -1)
        self._sent.append(np.stack([column[here] for column in columns]))

    def add_log(self, rows: Rows, here: Ints) -> None:
        """Keep where these records stand under the leader's epoch."""
        here = here[rows.known("value")[here] & (rows.numbers("leader_epoch")[here] == self.interval.leader_epoch)]
        found = here[np.isin(rows.numbers("value")[here], np.concatenate(self._sent, axis=1)[0])]
        self._stands.append(np.stack([rows.numbers("offset")[found], rows.numbers("value")[found]]))

    def is_exercised(self) -> bool:
        """Whether a record with acks=all was sent while the leader knew."""
        _, acks, sent, _ = np.concatenate(self._sent, axis=1)
        return bool(((acks == -1) & (sent >= self._from_ns)).any())

    def appended(self) -> list[Row]:
        """Return the records with acks=all that were appended while the ISR was below min ISR, by offset."""
        sent = {value: rest for value, *rest in np.concatenate(self._sent, axis=1).T.tolist()}
        stands = sorted({(offset, value) for offset, value in np.concatenate(self._stands, axis=1).T.tolist()})
        begin = min((offset for offset, value in stands if sent[value][1] >= self._from_ns), default=NEVER)
        end = max([self._served, *(offset + 1 for offset, value in stands if sent[value][2] == offset)])
        one = self.interval
        return [
            {
                "topic": one.topic,
                "partition": one.partition,
                "offset": offset,
                "value": value,
                "sent_ns": sent[value][1],
                "leader": one.leader,
                "leader_epoch": one.leader_epoch,
                "min_isr": one.min_isr,
                "isr": sorted(one.isr),
                "since": one.metadata_offset,
            }
            for offset, value in stands
            if sent[value][0] == -1 and offset >= begin and (self._until_ns == NEVER or offset < end)
        ]


class FindAppendsBelow(Scan[AppendsBelow]):
    """Looks in the logs for what was sent with acks=all while a leader knew that the ISR was below min ISR."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "watermarks": ("topic", "partition", "broker", "leader_epoch", "high_watermark", "source", "at_ns"),
        "sends": ("topic", "partition", "value", "acks", "status", "offset", "sent_ns", "done_ns"),
        "replicas": ("topic", "partition", "leader_epoch", "offset", "value"),
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._by_place: dict[tuple[str, int], list[_LogBelow]] = {}
        for one in intervals_below(record, LeaderContact.of(record)):
            if not _registers_again(record, one):
                self._by_place.setdefault((one.topic, one.partition), []).append(_LogBelow(one, _grown_ns(record, one)))

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter."""
        return bool(self._by_place)

    def add(self, rows: Rows) -> None:
        """Add a batch of one of the tables."""
        for place, here in rows.parts("partition"):
            for one in self._by_place.get(place, ()):
                add = {"watermarks": one.add_answers, "sends": one.add_sends, "replicas": one.add_log}[rows.table]
                add(rows, here)

    def result(self) -> AppendsBelow:
        """Return the records."""
        stretches = [one for some in self._by_place.values() for one in some if one.is_exercised()]
        found = [rows for one in stretches if (rows := one.appended())]
        return AppendsBelow(len(stretches), [rows[0] for rows in found], sum(map(len, found)))


def _grown_ns(record: Record, one: Interval) -> int | None:
    """Return when the ISR may have reached min ISR in the epoch of a stretch; None: it never did."""
    states = record.timeline.states(one.topic, one.partition)
    later = [state for state in states if state.metadata_offset > one.metadata_offset]
    in_epoch = [state for state in later if state.leader_epoch == one.leader_epoch]
    newer = later[len(in_epoch) :]
    changes = record.protocol.min_isr_changes(one.topic)
    is_whole = not any(state.lacks_record_since(before) for before, state in pairwise(states))
    stays = all(len(state.isr) < min(one.min_isr, len(state.replicas)) for state in in_epoch)
    stays &= not any(offset > one.metadata_offset for offset in changes)
    return None if is_whole and stays and (newer or not record.ends_early) else one.end_ns


def _registers_again(record: Record, one: Interval) -> bool:
    states = record.timeline.states(one.topic, one.partition)
    ends = [state.metadata_offset for state in states if state.leader_epoch > one.leader_epoch]
    return any(
        event.broker == one.leader
        and event.event == "registered"
        and event.metadata_offset > one.metadata_offset
        and (not ends or event.metadata_offset < min(ends))
        for event in record.timeline.brokers
    )


def _check(judged: Judged) -> Finding:
    record, found = judged.record, judged.record.seen(FindAppendsBelow)
    if found.exercised and record.split_steps is None:
        return unknown_finding("steps.jsonl is missing: whether a leader knew that it was below min ISR is not known")
    doubt = record.why_metadata_may_be_undone
    return finding(exercised=found.exercised, violations=found.first, cases=found.appended, doubt=doubt)


RULE = Clause(
    kip="KIP-966",
    check=_check,
    scans=(FindAppendsBelow,),
    parts=("sends", "watermarks", "replicas"),
    needed="never",
    compares_times=True,
    unknown_when=(
        "`steps.jsonl` is missing, or a record was appended and a controller lost its log. Only where a record with "
        "acks=all was sent while the leader [surely knew](#the-frozen-hw) that the ISR was below min ISR"
    ),
    example="""
        Broker 1 leads alone from 5 s on, and min ISR is 2. A record with acks=all is sent at 20 s, and acked.
        partitions: leader=1; at=5 isr=1
        sends: 0=1 at=20
        replicas: broker=1 offset=0 value=1
        gives: offset=0 min_isr=2 isr=1
    """,
)
