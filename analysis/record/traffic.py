"""What clients of one's own sent and got through published ports, and what was left of it: the table `wire`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal

import msgspec

from ebbtide.record.own_producers import WireFacts

Place = tuple[str, int]
Fate = Literal["shown", "aborted", "open"]
"""What a read_committed consumer gets of a record: its transaction, if it is in one, committed, aborted or is open."""
NEVER_NS = 1 << 62


class WireRow(msgspec.Struct, frozen=True, gc=False):
    """The columns of a row of `wire` that are judged."""

    kind: str
    client: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    last_offset: int | None = None
    digest: int | None = None
    acks: int | None = None
    status: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | None = None
    transactional_id: str | None = None
    transactional: bool | None = None
    commits: bool | None = None
    group: str | None = None
    leader_epoch: int | None = None
    high_watermark: int | None = None
    asked_ns: int | None = None
    done_ns: int | None = None
    broker: int | None = None

    @property
    def place(self) -> Place:
        """The partition that the row is of."""
        return self.topic or "", self.partition or 0

    @property
    def since_ns(self) -> int:
        """When it was asked for."""
        return self.asked_ns or 0

    @property
    def until_ns(self) -> int:
        """When its answer came; without an answer, never."""
        return NEVER_NS if self.done_ns is None else self.done_ns


class FinalLog:
    """The final read of one partition: its log start and HW, its records by offset, and its transactions' markers."""

    def __init__(self) -> None:
        self.start: int | None = None
        self.end = 0
        self.records: dict[int, WireRow] = {}
        self._markers: dict[int | None, list[tuple[int, bool]]] = defaultdict(list)

    def add(self, row: WireRow) -> None:
        """Add a row of the read."""
        if row.offset is None:
            return
        if row.kind == "final":
            self.records[row.offset] = row
        elif row.kind == "final-marker":
            self._markers[row.producer_id].append((row.offset, row.commits is True))
        elif row.kind == "final-log":
            self.start, self.end = row.offset, row.high_watermark or 0

    @cached_property
    def by_sequence(self) -> Mapping[tuple[int | None, int | None, int | None], WireRow]:
        """The records of idempotent producers, by producer id, epoch and sequence."""
        rows = (row for row in self.records.values() if row.sequence is not None)
        return {(row.producer_id, row.producer_epoch, row.sequence): row for row in rows}

    def fate(self, record: WireRow) -> Fate:
        """Return what a read_committed consumer gets of a record of this log."""
        if not record.transactional:
            return "shown"
        markers = self._markers[record.producer_id]
        at = bisect_left(markers, (record.offset or 0, False))
        return "open" if at == len(markers) else "shown" if markers[at][1] else "aborted"


class Traffic:
    """The table `wire`, sorted by what its rows say.

    - `sends` are those that a broker acked, by partition, without acks=0. `idempotent` producers have sequences.
    - `commits` are what groups committed, or asked to commit with a transaction, in the order of their requests.
    - `fetched` are the fetched batches by partition.
    - `replicas` are the batches of each broker's log by partition, and after them the row of the log.
    - `final` are the final logs by partition, and `served` the committed offsets at the end by group.
    """

    def __init__(self, rows: Iterable[WireRow], facts: WireFacts) -> None:
        self.facts = facts
        self.sends: dict[Place, list[WireRow]] = defaultdict(list)
        self.idempotent: set[int] = set()
        self.commits: list[WireRow] = []
        self.fetched: dict[Place, list[WireRow]] = defaultdict(list)
        self.final: dict[Place, FinalLog] = defaultdict(FinalLog)
        self.replicas: dict[Place, dict[int, list[WireRow]]] = defaultdict(lambda: defaultdict(list))
        self.served: dict[str, dict[Place, int]] = {}
        self._asked: dict[str | None, list[WireRow]] = defaultdict(list)
        served: dict[str, dict[Place, int]] = defaultdict(dict)
        for row in rows:
            if row.kind == "produce":
                if row.sequence is not None and row.producer_id is not None:
                    self.idempotent.add(row.producer_id)
                if row.status == "acked" and row.acks != 0:
                    self.sends[row.place].append(row)
            elif row.kind in ("commit", "txn-commit"):
                self.commits.append(row)
                if row.kind == "txn-commit":
                    self._asked[row.transactional_id].append(row)
            elif row.kind == "fetch":
                self.fetched[row.place].append(row)
            elif row.kind in ("end-txn", "init-producer"):
                self._asked[row.transactional_id].append(row)
            elif row.kind in ("replica", "replica-log"):
                self.replicas[row.place][row.broker or 0].append(row)
            elif row.kind == "final-commit":
                served[row.group or ""][row.place] = row.offset or 0
            elif row.kind == "final-group":
                self.served[row.group or ""] = served[row.group or ""]
            else:
                self.final[row.place].add(row)
        self.commits.sort(key=lambda row: row.since_ns)
        for asked in self._asked.values():
            asked.sort(key=lambda row: row.since_ns)

    @property
    def transactional_ids(self) -> Sequence[str]:
        """The transactional ids whose transactions clients ended."""
        asked = self._asked.items()
        return sorted(name for name, rows in asked if name and any(row.kind == "end-txn" for row in rows))

    def end_of(self, row: WireRow) -> WireRow | None:
        """Return the answered request that ended the transaction of a send or a commit; None: nobody was told.

        A client repeats a request to end a transaction that failed or got no answer. Where another incarnation of the
        producer began before an answer came, nobody knows.
        """
        for asked in self.asked_since(row):
            if asked.kind == "init-producer":
                return None
            if asked.kind == "end-txn" and asked.status == "acked":
                return asked
        return None

    def is_in_force(self, row: WireRow) -> bool:
        """Whether a group's commit was acked, and with it the transaction that it is in, if any."""
        if row.status != "acked" or row.kind == "commit":
            return row.status == "acked"
        return (end := self.end_of(row)) is not None and end.commits is True

    def asked_since(self, row: WireRow) -> Iterator[WireRow]:
        """Yield what a transactional producer asked for after a row: offsets, ends of transactions, and new ids."""
        asked = self._asked[row.transactional_id]
        for at in range(bisect_right(asked, row.since_ns, key=lambda one: one.since_ns), len(asked)):
            yield asked[at]

    @property
    def unread(self) -> Sequence[str]:
        """Why rows may be missing, a sentence each."""
        if self.facts.why_incomplete is not None:
            return [f"what your clients sent is not known: {self.facts.why_incomplete}"]
        unread = sorted(self.facts.unread.items())
        return [f"what your clients sent is not known whole: {n:,} {what} could not be read" for what, n in unread]

    def why_no_final_log(self, place: Place) -> str | None:
        """Return why a partition has no whole final read; None: it has."""
        log = self.final.get(place)
        if log is not None and log.start is not None:
            return None
        name, known = f"{place[0]}-{place[1]}", self.facts.no_final_read
        return f"{name} was not read at the end: {known.get(name) or known.get(place[0]) or 'the final read lacks it'}"


def sort_by_group(commits: Iterable[WireRow]) -> Mapping[tuple[str, Place], Sequence[WireRow]]:
    """Return the commits of each group on each partition."""
    found: dict[tuple[str, Place], list[WireRow]] = defaultdict(list)
    for row in commits:
        found[row.group or "", row.place].append(row)
    return found
