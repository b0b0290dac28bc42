"""Builds small run records for tests, row by row, with defaults for the rest.

    record = RecordBuilder().acked(1, at=0).final(1, at=0)
    record.write(tmp_path / "run")

Times are plain numbers (nanoseconds); each row is later than the one before, unless the test says otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace
from usual_rows import usual_row

from analysis.record.record import Record
from ebbtide.record.clients import ClientEvent, Event, write_client_events
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import (
    FinalOffsets,
    FinalTransactions,
    Manifest,
    ProducerSetup,
    Status,
    is_record,
    read_manifest_and_keys,
    write_manifest,
)
from ebbtide.record.tables import TABLES
from ebbtide.scenario.write import SCENARIO


def as_record(folder: Path, manifest: Manifest | None = None) -> Record:
    """Return the record in a folder, with its own manifest unless one is given; a bare one where it has none."""
    own, keys = Manifest(run_id="run-1"), frozenset[str]()
    if is_record(folder):
        own, keys = read_manifest_and_keys(RecordFolder(folder))
    return Record(RecordFolder(folder), manifest or own, keys)


FINAL_CONSUMER = 9999
_STEP_NS = 10


class RecordBuilder:
    """A record of topic `t`, partition 0, unless a row says otherwise.

    `on`, or `topic` or `partition` of a row, do so. A table is written once it has a row, or was named in `empty`. The
    end of each partition that any row names is put down as log start 0, and HW 1000 where the final read returned any
    row, else 0, unless `end` says otherwise.
    """

    def __init__(self, *, status: Status = "complete", final_consumer: int | None = FINAL_CONSUMER) -> None:
        self.status: Status = status
        self.final_consumer = final_consumer
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.ends: dict[str, FinalOffsets] = {}
        self.unread: set[str] = set()
        self.producers: dict[str, ProducerSetup] = {}
        self.groups: dict[int, str] = {}
        self.events: dict[int, list[ClientEvent]] = {}
        self.final_transactions: FinalTransactions | None = None
        self.is_still = True
        self._now = 1000
        self._topic = "t"
        self._base = 0

    def on(self, topic: str, *, base: int = 0) -> Self:
        """Set the topic of the next rows; `base` is added to their values.

        Values are unique in a run.
        """
        self._topic, self._base = topic, base
        return self

    def send(self, value: int, *, at: int | None = None, status: str = "acked", **columns: Any) -> Self:
        """One row of sends, offset `at`; acks=all unless `acks` is given."""
        sent = self._tick()
        row = {"value": value, "sequence": value, "status": status, "offset": at, "sent_ns": sent}
        return self._add("sends", row | {"done_ns": self._tick()}, columns)

    def acked(self, *values: int, at: int, **columns: Any) -> Self:
        """Acked sends at adjacent offsets from `at` on."""
        for offset, value in enumerate(values, at):
            self.send(value, at=offset, **columns)
        return self

    def read(self, *values: int | None, at: int, consumer: int = 1, **columns: Any) -> Self:
        """Polls at adjacent offsets from `at` on, by an ordinary consumer in one session."""
        for offset, value in enumerate(values, at):
            row = {
                "offset": offset,
                "value": value,
                "consumer": consumer,
                "prev_offset": offset - 1 if offset > at else None,
                "leader_epoch": None,
                "polled_ns": self._tick(),
            }
            self._add("polls", row, columns)
        return self

    def final(self, *values: int | None, at: int = 0, **columns: Any) -> Self:
        """What the final read returned at adjacent offsets from `at` on."""
        return self.read(*values, at=at, consumer=FINAL_CONSUMER, **columns)

    def end(
        self, *, partition: int = 0, log_start: int = 0, high_watermark: int = 1000, last_stable: int | None = None
    ) -> Self:
        """The log start, HW and last stable offset of a partition at the final read."""
        self.ends[f"{self._topic}-{partition}"] = FinalOffsets(
            log_start=log_start, high_watermark=high_watermark, last_stable=last_stable
        )
        return self

    def transactions(self, *silent: str, waited_s: float = 0.0, still: bool = True, **states: str | None) -> Self:
        """What coordinators said of the transactions; a last stable offset that no `end` says is then the HW.

        `still`: each last stable offset below its HW stood still.
        """
        self.is_still = still
        self.final_transactions = FinalTransactions(states=states, silent=silent, waited_s=waited_s)
        return self

    def not_in_final_read(self, *, partition: int = 0) -> Self:
        """Leave a partition out of the final offsets."""
        self.unread.add(f"{self._topic}-{partition}")
        return self

    def served(self, high_watermark: int, *, epoch: int | None = 0, **columns: Any) -> Self:
        """One list_offsets observation, asked and answered after the one before."""
        times = {"asked_ns": self._tick(), "at_ns": self._tick()}
        return self._add("watermarks", {"leader_epoch": epoch, "high_watermark": high_watermark, **times}, columns)

    def in_order(self) -> Self:
        """The HW observations in the order of their times, as a sampler writes them down."""
        self.tables.get("watermarks", []).sort(key=lambda row: int(row["at_ns"]))
        return self

    def checkpoint(self, broker: int, high_watermark: int, **columns: Any) -> Self:
        """One checkpointed HW of a replica."""
        return self.served(
            high_watermark, epoch=None, broker=broker, source="checkpoint", **{"asked_ns": None, **columns}
        )

    def led_by(self, leader: int, *, epoch: int, **columns: Any) -> Self:
        """One metadata record that sets the leader and the epoch."""
        row = {
            "metadata_offset": self._now,
            "at_ns": self._tick(),
            "leader": leader,
            "leader_epoch": epoch,
            "partition_epoch": epoch,
            "isr": [leader] if leader >= 0 else [],
        }
        return self._add("partitions", row, columns)

    def replica(self, broker: int, *values: int | None, at: int = 0, epoch: int = 0, **columns: Any) -> Self:
        """Rows of one replica's log at adjacent offsets from `at` on."""
        for offset, value in enumerate(values, at):
            row = {"broker": broker, "offset": offset, "leader_epoch": epoch, "value": value}
            self._add("replicas", row, columns)
        return self

    def coordinated_by(self, broker: int, *, epoch: int = 0, at_ns: int = 0) -> Self:
        """One metadata record that makes a broker the coordinator of every group.

        It answers two questions for its HW soon after.
        """
        topic = "__consumer_offsets"
        for asked_ns in (at_ns + 2, at_ns + 5):
            self.served(10, epoch=epoch, broker=broker, topic=topic, asked_ns=asked_ns, at_ns=asked_ns + 1)
        return self.led_by(broker, epoch=epoch, at_ns=at_ns, topic=topic)

    def commit(self, commit: int, offset: int, *, status: str = "acked", **columns: Any) -> Self:
        """One commit of the group `g`."""
        row = {
            "commit": commit,
            "offset": offset,
            "consumer": 1,
            "status": status,
            "asked_ns": self._tick(),
            "done_ns": self._tick(),
        }
        return self._add("commits", row, columns)

    def answer(self, commit: int | None, offset: int | None, *, broker: int = 1, **columns: Any) -> Self:
        """One answer of a coordinator on the group `g`."""
        return self.commit(
            commit,  # type: ignore[arg-type]
            offset,  # type: ignore[arg-type]
            **{"status": "served", "consumer": None, "broker": broker, **columns},
        )

    def copy(self, value: int, *, of: int, group: str = "copiers", **columns: Any) -> Self:
        """One copy of the input at offset `of`, to the same topic."""
        row = {"group": group, "offset": of, "copied_to": self._topic, "value": value, "sent_ns": self._tick()}
        return self._add("copies", row, columns)

    def group(self, name: str, *members: int) -> Self:
        """Make consumers the members of a group."""
        self.groups |= dict.fromkeys(members, name)
        for member in members:
            self.events.setdefault(member, [])
        return self

    def assigned(self, consumer: int, *partitions: int, event: Event = "assigned", at_ns: int | None = None) -> Self:
        """A member is assigned partitions of the topic, or they are revoked."""
        names = tuple(f"{self._topic}-{partition}" for partition in partitions)
        return self._event(consumer, ClientEvent(event=event, at_ns=at_ns or self._tick(), partitions=names))

    def reset(self, consumer: int, to: int, *, partition: int = 0, at_ns: int | None = None) -> Self:
        """A member moves its position, because its group has no offset."""
        at = {"topic": self._topic, "partition": partition, "to": to, "at_ns": at_ns or self._tick()}
        return self._event(consumer, msgspec.convert({"event": "no-offset", **at}, ClientEvent))

    def _event(self, consumer: int, event: ClientEvent) -> Self:
        self.events.setdefault(consumer, []).append(event)
        return self

    def compacted(self, topic: str | None = None) -> Self:
        """The cleanup policy of the topic, or of another, is compaction."""
        row = {
            "metadata_offset": self._now,
            "at_ns": self._tick(),
            "resource": f"topic:{topic or self._topic}",
            "name": "cleanup.policy",
            "value": "compact",
        }
        self.tables.setdefault("configs", []).append(row)
        return self

    def producer(self, id_: int, *, idempotent: bool = False, transactional: bool = False) -> Self:
        """A producer's configuration, as the manifest has it."""
        self.producers[str(id_)] = ProducerSetup(acks=-1, idempotent=idempotent, transactional=transactional)
        return self

    def empty(self, *tables: str) -> Self:
        """Tables to write although they have no rows."""
        for table in tables:
            self.tables.setdefault(table, [])
        return self

    def manifest(self) -> Manifest:
        """The manifest, with the ends of every partition that has sends or polls."""
        named = {
            f"{row['topic']}-{row['partition']}" for table in ("sends", "polls") for row in self.tables.get(table, [])
        }
        read = {
            f"{row['topic']}-{row['partition']}"
            for row in self.tables.get("polls", [])
            if row["consumer"] == self.final_consumer
        }
        ends = {name: FinalOffsets(log_start=0, high_watermark=1000 if name in read else 0) for name in named}
        ends |= self.ends
        if self.final_transactions is not None:
            ends = {
                name: one if one.last_stable is not None else replace(one, last_stable=one.high_watermark)
                for name, one in ends.items()
            }
            still = {
                name: one.last_stable
                for name, one in ends.items()
                if self.is_still and one.last_stable is not None and one.last_stable < one.high_watermark
            }
            self.final_transactions = replace(self.final_transactions, still=still)
        return Manifest(
            run_id="made-by-hand",
            status=self.status,
            final_consumer=self.final_consumer,
            final_offsets={name: ends[name] for name in sorted(ends.keys() - self.unread)},
            final_transactions=self.final_transactions,
            producers=self.producers,
        )

    def write(self, record: Path) -> Path:
        """Write the record; returns its folder."""
        record.mkdir(parents=True, exist_ok=True)
        write_manifest(RecordFolder(record), self.manifest())
        for consumer, events in self.events.items():
            write_client_events(RecordFolder(record), f"consumer-{consumer}", events)
        if self.groups:
            members = (f'[[consumers]]\nid = {id_}\ngroup = "{name}"\n' for id_, name in self.groups.items())
            (record / SCENARIO).write_text("".join(members))
        for table, rows in self.tables.items():
            write_table(record, table, pa.Table.from_pylist(rows, schema=TABLES[table]))
        return record

    def _tick(self) -> int:
        self._now += _STEP_NS
        return self._now

    def _add(self, table: str, row: dict[str, Any], columns: dict[str, Any]) -> Self:
        row = usual_row(table, **{"topic": self._topic, **row, **columns})
        if row.get("value") is not None:
            row["value"] += self._base
        self.tables.setdefault(table, []).append(row)
        return self


def write_table(record: Path, table: str, rows: pa.Table, *, name: str = "part-0.parquet") -> None:
    """Write one file of a table."""
    (record / table).mkdir(exist_ok=True)
    pq.write_table(rows, record / table / name, compression="zstd")
