"""A history of the user's own clients: what the relay recorded of them, and what was left at the end.

The traffic is decoded as that of a run. The final log is made of the same batches, with what the history says is gone.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
from client_frames import TOPIC, Traffic
from evidence_builders import batch
from records import RecordBuilder, as_record, write_table

from analysis.judge.rules.clause import Clause, Judged, check_all
from analysis.reconcile.model import Reconciliation
from analysis.record.record import Record
from cluster.relay.decode import rows_of_batch
from cluster.relay.decoding import Decoder, WireRow
from ebbtide.logs.batches import whole_batches
from ebbtide.record.files import RecordFolder
from ebbtide.record.own_producers import WireFacts
from ebbtide.record.steps import write_steps
from ebbtide.record.tables import HANDLED, WIRE
from ebbtide.record.verdict import Counts, PropertyResult

KEY = b"k" * 32
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


def records(
    *values: str,
    at: int = 0,
    epoch: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytes:
    """A batch of these values as it is sent, or at its place in a log."""
    flags = _TRANSACTIONAL if transactional else 0
    return batch(at, [(None, value.encode(), ()) for value in values], epoch=epoch, producer=producer, flags=flags)


def marker(at: int, *, commits: bool, producer: int = 7, epoch: int = 0) -> bytes:
    """The end of a transaction in a log."""
    key = struct.pack(">hh", 0, commits)
    return batch(at, [(key, b"", ())], flags=_TRANSACTIONAL | _CONTROL, producer=(producer, epoch, -1))


def says(found: PropertyResult) -> str:
    """What the first piece of evidence of a violated clause says."""
    assert found.status == "violated", found
    return str(found.evidence[0]["says"])


def why(found: PropertyResult) -> str:
    """Why a clause is unknown."""
    assert found.status == "unknown", found
    return str(found.evidence[0]["why"])


class History:
    """Clients' traffic, the final log of the topic, what the group has committed at the end, and the elections."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.final: Sequence[bytes] | None = ()
        self.log_start = 0
        self.served: int | None = None
        self.coordinator_answers = True
        self.handled: list[tuple[int, int | None, str | None]] = []
        self.logs: dict[int, list[tuple[int, int, int]]] = {}
        """By broker, the batches of its log: first and last offset, and leader epoch."""
        self.facts = WireFacts()
        self.topic_ids = {"id": TOPIC}
        self.run = RecordBuilder().on(TOPIC).led_by(1, epoch=2)

    def handle(self, *offsets: int, group: str | None = None) -> None:
        """The test says now that it has handled the records at these offsets."""
        for offset in offsets:
            self.traffic.now += 1
            self.handled.append((offset, self.traffic.now, group))

    def record(self, folder: Path) -> Record:
        """Write the record of the run."""
        decoder = Decoder(KEY)
        rows = [row for entry in self.traffic.entries for row in decoder.feed(entry)]
        rows += [*decoder.finish(), *self._final_rows(), *self._served_rows(decoder), *self._replica_rows()]
        written = self.run.write(folder)
        write_steps(RecordFolder(written), [])
        columns = {name: [row.get(name) for row in rows] for name in WIRE.names}
        write_table(written, "wire", pa.table(columns, schema=WIRE))
        if self.handled:
            said = [
                {"topic": TOPIC, "partition": 0, "offset": offset, "group": group, "at_ns": at_ns}
                for offset, at_ns, group in self.handled
            ]
            write_table(written, "handled", pa.Table.from_pylist(said, schema=HANDLED))
        manifest = msgspec.structs.replace(self.run.manifest(), wire=self.facts, topic_ids=self.topic_ids)
        return as_record(written, manifest)

    def check(self, clause: Clause, folder: Path) -> PropertyResult:
        """Return what a clause finds in the run."""
        judged = Judged(self.record(folder), Reconciliation(counts=Counts()), ())
        (checked,) = check_all(judged, [clause])
        return checked.found

    def _final_rows(self) -> list[WireRow]:
        if self.final is None:
            return []
        place: WireRow = {"topic": TOPIC, "partition": 0}
        rows = [
            row
            for data in self.final
            for one in whole_batches(data)
            for row in rows_of_batch(one, KEY, place, self.log_start, 1000)
        ]
        return [*rows, {"kind": "final-log", **place, "offset": self.log_start, "high_watermark": 1000}]

    def _replica_rows(self) -> list[WireRow]:
        rows: list[WireRow] = []
        for broker, batches in self.logs.items():
            place: WireRow = {"topic": TOPIC, "partition": 0, "broker": broker}
            for first, last, epoch in batches:
                rows.append({"kind": "replica", **place, "offset": first, "last_offset": last, "leader_epoch": epoch})
            end = batches[-1][1] + 1 if batches else 0
            rows.append({"kind": "replica-log", **place, "offset": 0, "last_offset": end})
        return rows

    def _served_rows(self, decoder: Decoder) -> list[WireRow]:
        groups: list[WireRow] = [{"kind": "final-group", "group": group} for group in sorted(decoder.groups)]
        served: WireRow = {"kind": "final-commit", "group": "g", "topic": TOPIC, "partition": 0, "offset": self.served}
        return ([] if self.served is None else [served]) + (groups if self.coordinator_answers else [])
