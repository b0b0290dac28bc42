"""Checks that brokers describe partitions as the metadata log has them.

Compared are ISR, ELR, last known ELR and leader epoch. A broker answers DescribeTopicPartitions
from its own image, which may lag the controller's log by any time. How new an answer must be is
therefore unknown. But each answer must equal some state that the log had when the answer was given,
and the answers of one broker never go back. A broker that registered between two answers may have
restarted with a new image; the order of those answers is not checked.

A run that ended early has a copy of the log that may end before the last answers. An answer that fits
no state of the copy is judged only if the copy has a later record.

Two states may look alike, so each answer is matched with the earliest state that fits. If any order
of states explains the answers, this order does. The controller's times are cut to milliseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from analysis.judge.history.evidence import Row
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from analysis.record.timeline import MILLISECOND_NS, Timeline
from ebbtide.coverage_fact import Fact
from ebbtide.errors import UsageError
from ebbtide.record.rows import PartitionState
from ebbtide.record.tables import TABLES

FACTS = (
    Fact(
        "clients",
        "described-answers",
        "answers of brokers that were held against the metadata log",
        "KIP-966, Other behaviors 5",
    ),
    Fact("clients", "described-elr", "such answers that named an ELR", "KIP-966, Other behaviors 5"),
    Fact(
        "clients", "described-last-known-elr", "such answers that named a last known ELR", "KIP-966, Other behaviors 5"
    ),
    Fact(
        "clients",
        "described-as-in-force",
        "such answers that said what was in force when they were asked for",
        "KIP-966, Other behaviors 5",
    ),
)

_KEPT_MAX = 20
"""How many mismatches are kept as evidence; all are counted."""


class DescribedState(msgspec.Struct, frozen=True, kw_only=True):
    """One row of described/."""

    topic: str
    partition: int
    broker: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    asked_ns: int
    at_ns: int

    def matches(self, state: PartitionState) -> bool:
        """Return whether the answer describes the state.

        Lists are compared as sets; a field that the broker left out is not compared.
        """
        return (
            self.leader_epoch == state.leader_epoch
            and set(self.isr) == set(state.isr)
            and (self.elr is None or set(self.elr) == set(state.elr))
            and (self.last_known_elr is None or set(self.last_known_elr) == set(state.last_known_elr))
        )


class ComparedAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """All answers of a run, compared with its metadata log; `facts` counts them.

    `differing` answers fit no state; the first of these are the `mismatches`. `unread` are answers that fit no state
    that is known, given after the end of what is known.
    """

    facts: dict[str, int]
    mismatches: tuple[Row, ...] = ()
    differing: int = 0
    unread: tuple[Row, ...] = ()


class _Place(msgspec.Struct, kw_only=True):
    """The progress of one broker's answers on one partition.

    `at` is the state reached; `asked_ns` is when the last answer was asked for.
    """

    at: int = 0
    asked_ns: int = 0


class CompareAnswers(Scan[ComparedAnswers | None]):
    """Compares the brokers' answers with the metadata log, in the order of the journal; None if there are none.

    A complete run ended after the last answer, so its log has every state that was described. The same row a second
    time is the same answer. Memory grows only by a number for each answer.
    """

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {"described": tuple(TABLES["described"].names)}

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._record = record
        timeline = record.timeline
        self._registered = _registrations(timeline)
        self._known_until_ns = None if record.manifest.status == "complete" else timeline.newest_ns
        self._places: dict[tuple[int, str, int], _Place] = {}
        self._facts = Counter(dict.fromkeys((fact.name for fact in FACTS), 0))
        self._mismatches: list[Row] = []
        self._unread: list[Row] = []
        self._differing = 0
        self._seen: set[int] = set()

    def add(self, rows: Rows) -> None:
        """Compare a batch. Raises `UsageError` for a damaged table."""
        for row in rows.at(np.arange(rows.count)).to_pylist():
            try:
                answer = msgspec.convert(row, DescribedState)
            except msgspec.ValidationError as error:
                where = str(self._record)
                raise UsageError("the table described cannot be read", where=where, got=str(error)) from None
            if (number := hash(answer)) not in self._seen:
                self._seen.add(number)
                self._compare(answer)

    def _compare(self, answer: DescribedState) -> None:
        states = self._record.timeline.states(answer.topic, answer.partition)
        if not states:
            return
        place = self._places.setdefault((answer.broker, answer.topic, answer.partition), _Place())
        since_ns = place.asked_ns - MILLISECOND_NS
        registered = self._registered.get(answer.broker, [])
        if bisect_right(registered, answer.at_ns) > bisect_right(registered, since_ns):
            place.at = 0
        place.asked_ns = answer.asked_ns
        known = _count_up_to(states, answer.at_ns + MILLISECOND_NS)
        found = next((at for at in range(place.at, known) if answer.matches(states[at])), None)
        self._facts["described-answers"] += 1
        self._facts["described-elr"] += bool(answer.elr)
        self._facts["described-last-known-elr"] += bool(answer.last_known_elr)
        if found is not None:
            place.at = found
            in_force = _count_up_to(states, answer.asked_ns)
            self._facts["described-as-in-force"] += in_force > 0 and answer.matches(states[in_force - 1])
            return
        mismatch = _mismatch(answer, states[:known], place.at)
        if self._known_until_ns is not None and answer.at_ns + MILLISECOND_NS >= self._known_until_ns:
            if len(self._unread) < _KEPT_MAX:
                self._unread.append({**mismatch, "why": "the copy of the metadata log may end before this answer"})
            return
        self._differing += 1
        if self._differing <= _KEPT_MAX:
            self._mismatches.append(mismatch)

    def result(self) -> ComparedAnswers | None:
        """Return how the answers compare."""
        if not self._record.has("described"):
            return None
        return ComparedAnswers(
            facts=dict(self._facts),
            mismatches=tuple(self._mismatches),
            differing=self._differing,
            unread=tuple(self._unread),
        )


def _count_up_to(states: Sequence[PartitionState], at_ns: int) -> int:
    """Count the states, oldest first, whose time is at most `at_ns`."""
    return bisect_right(states, at_ns, key=lambda state: state.at_ns)


def _registrations(timeline: Timeline) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for event in timeline.brokers:
        if event.event == "registered":
            found.setdefault(event.broker, []).append(event.at_ns)
    return {broker: sorted(times) for broker, times in found.items()}


def _mismatch(answer: DescribedState, known: Sequence[PartitionState], at: int) -> Row:
    earlier = [state.metadata_offset for state in known[:at] if answer.matches(state)]
    place = known[min(at, len(known) - 1)] if known else None
    row: Row = {
        "topic": answer.topic,
        "partition": answer.partition,
        "broker": answer.broker,
        "leader_epoch": answer.leader_epoch,
        "isr": sorted(answer.isr),
        "elr": None if answer.elr is None else sorted(answer.elr),
        "last_known_elr": None if answer.last_known_elr is None else sorted(answer.last_known_elr),
        "asked_ns": answer.asked_ns,
        "at_ns": answer.at_ns,
        "described_before": place.metadata_offset if place is not None else None,
    }
    if earlier:
        return {**row, "metadata_offset": earlier[-1], "wrong": "the broker had described a later state before"}
    return {**row, "wrong": "the partition never was in that state"}
