"""Makes records of the examples that the rules declare, with defaults for all that an example leaves out."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import evidence_builders as build
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
from records import FINAL_CONSUMER, as_record, write_table
from usual_rows import Row, usual_row
from worked_steps import TOPIC_ID, ns, step_of, write_epochs, write_moved_replica, write_requests, write_torn_log

from analysis.evidence.replicas import write_replicas
from analysis.evidence.report import ControllerLog, TimelineReport, save
from analysis.judge.rules.rule import DeclaredRule
from analysis.record.record import Record
from ebbtide.kraft.commits import CommittedBatch
from ebbtide.kraft.follower import MetadataFollower
from ebbtide.logs.segments import METADATA_FOLDER, TopicPartition
from ebbtide.record.clients import ClientEvent, write_client_events
from ebbtide.record.clock import ClockReading
from ebbtide.record.files import CLOCK_FILE, LOGS_DIR, QUORUM_FILE, RAW_DIR, WITNESS_DIR, RecordFolder
from ebbtide.record.manifest import (
    FinalOffsets,
    FinalTransactions,
    Manifest,
    ProducerSetup,
    TopicSetup,
    Topology,
    write_manifest,
)
from ebbtide.record.node_times import NodeEnd
from ebbtide.record.own_producers import WireFacts
from ebbtide.record.steps import write_steps
from ebbtide.record.tables import TABLES, WITNESS_SCHEMA

_TRANSACTIONAL, _CONTROL = 0x10, 0x20
ELR_ON = {"metadata.version": 27, "eligible.leader.replicas.version": 1}
SENDER = """
name = "example"
title = "t"
description = "d"
kafka = ["4.1.0"]
[topics.t]
partitions = 1
replication_factor = 3
min_isr = 2
[[producers]]
id = 2
topic = "t"
count = 10
"""
COPIERS = f"""{SENDER}
[topics.copies]
partitions = 1
replication_factor = 3
min_isr = 2
[topics.__consumer_offsets]
replication_factor = 3
min_isr = 2
[[producers]]
id = 1
topic = "copies"
group = "g"
copies = "t"
transactional = true
txn_records = 1
client = "java"
"""


_BEGINS_S = {"partitions": 1, "sends": 20, "copies": 25, "commits": 30, "polls": 40, "watermarks": 50, "described": 50}
_JOINING = ((0, "registered"), (0.5, "unfenced"))
"""What each broker does first, in every example."""
_METADATA = ("partitions", "brokers", "configs")
_BESIDE_TABLES = ("steps", "setting", "witness", "quorum", "clock", "logs", "requests")
_GIVES = ("gives", "unknown")


class Example(NamedTuple):
    """The rows of an example by table, what the rule finds, and the status of a clause then."""

    rows: Mapping[str, Sequence[str]]
    gives: str
    status: str


class MadeRule(DeclaredRule, frozen=True, kw_only=True):
    """A rule of a test, which no module declares."""

    @property
    def module(self) -> str:
        """Its name is `made`."""
        return "made"


def example_of(rule: DeclaredRule) -> Example:
    """Read the example of a rule. Raises `ValueError` for one that has other tables, or does not say what is found."""
    texts: dict[str, str] = {}
    for line in rule.example.strip().splitlines():
        begins = re.match(r"\s*([a-z]+): (.*)", f"{line} ")
        if begins is not None:
            texts[begins[1]] = begins[2]
        elif texts:
            texts[[*texts][-1]] += f" {line}"
    rows = {name: [row.strip() for row in text.split(";") if row.strip()] for name, text in texts.items()}
    if unknown := rows.keys() - {*TABLES, *_BESIDE_TABLES, *_GIVES}:
        known = ", ".join([*TABLES, *_BESIDE_TABLES, *_GIVES])
        raise ValueError(f"the example of {rule.name} has {', '.join(sorted(unknown))}; allowed: {known}")
    if rows.keys().isdisjoint(_GIVES):
        raise ValueError(f"the example of {rule.name} does not say what the rule finds: it lacks a line with `gives:`")
    status = "unknown" if "unknown" in rows else "violated"
    gives = rows.pop("unknown") if status == "unknown" else rows.pop("gives")
    return Example(rows, " ".join(gives), status)


def record_of(example: Example, folder: Path) -> Record:
    """Write the record of an example."""
    folder.mkdir(parents=True)
    texts: dict[str, Sequence[str]] = {"partitions": ["leader=1"], **example.rows}
    tables = {name: _rows(name, lines) for name, lines in texts.items() if name in TABLES}
    joined = [f"at={at} broker={broker} event={what}" for at, what in _JOINING for broker in (1, 2, 3)]
    tables.setdefault("brokers", [])[:0] = _rows("brokers", joined)
    in_order = sorted((row for name in _METADATA for row in tables.get(name, ())), key=lambda row: int(row["at_ns"]))
    for number, row in enumerate(in_order):
        row["metadata_offset"] = number
    epochs: dict[int, int] = {}
    for row in tables["brokers"]:
        if row["event"] == "registered":
            epochs[row["broker"]] = row["metadata_offset"]
        epoch = epochs[row["broker"]]
        row |= {"broker_epoch": epoch, "incarnation": f"incarnation-{epoch}"}
    setting = {key: value for line in texts.get("setting", ()) for key, value in _words(line)}
    manifest = _manifest(tables, setting)
    at = RecordFolder(folder)
    write_manifest(at, manifest)
    log = ControllerLog(controller=100, start_offset=0, end_offset=99, last_epoch=1, agreed_end_offset=99)
    save(at, "timeline", TimelineReport(controller=100, how="the log", end_offset=99, logs=(log,), missing=()))
    write_steps(at, [step_of(number, dict(_words(line))) for number, line in enumerate(texts.get("steps", ()))])
    if "copiers" in setting:
        (folder / "scenario.toml").write_text(COPIERS)
    elif "sends" in setting:
        (folder / "scenario.toml").write_text(SENDER)
    elif members := setting.get("group"):
        (folder / "scenario.toml").write_text(f'[[consumers]]\nid = {members}\ngroup = "g"\n')
        event = ClientEvent(event="assigned", at_ns=ns(1), partitions=("t-0",))
        write_client_events(at, f"consumer-{members}", [event])
    for name, rows in tables.items():
        whole = pa.Table.from_pylist(rows, schema=TABLES[name])
        if name in _METADATA:
            pq.write_table(whole, folder / f"{name}.parquet")
        else:
            write_table(folder, name, whole)
    if "witness" in texts:
        lines = map(dict, map(_words, _lines_of_rows(texts["witness"])))
        rows = [{"topic": "t", "partition": 0, **_typed(words, WITNESS_SCHEMA)} for words in lines]
        write_table(folder, WITNESS_DIR, pa.Table.from_pylist(rows, schema=WITNESS_SCHEMA))
    if "marker" in setting:
        says, epoch = setting["marker"].split(",")
        write_transaction(folder / RAW_DIR / "broker-1" / "t-0", commits=says == "commit", epoch=int(epoch))
    if "torn" in setting:
        write_torn_log(folder / RAW_DIR / f"broker-{setting['torn']}" / "t-0")
        write_replicas(at, lambda _: None)
    if "epochs" in setting:
        write_epochs(folder / RAW_DIR, *map(int, setting["epochs"].split(",")))
    if "requests" in texts:
        write_requests(folder, [dict(_words(line)) for line in texts["requests"]])
    if "directory" in setting:
        named, to = setting["directory"].split(",")
        write_moved_replica(folder / RAW_DIR, 2, to=to, named=named)
    for line in texts.get("logs", ()):
        _write_log(folder, dict(_words(line)))
    if "clock" in texts:
        _write_clock(folder, dict(_words(" ".join(texts["clock"]))))
    if "quorum" in texts:
        _write_quorum(folder, dict(_words(" ".join(texts["quorum"]))))
    return as_record(folder, manifest)


def _words(line: str) -> list[tuple[str, str]]:
    return [(key, value) for key, _, value in (word.partition("=") for word in line.split())]


def _typed(row: Row, schema: pa.Schema) -> Row:
    """Return a row with its words in the types of the schema; `-` is null, and a list has commas."""

    def read(kind: pa.DataType, word: str) -> object:
        if word == "-":
            return None
        if pt.is_list(kind):
            return [int(each) for each in word.split(",") if each]
        return word if pt.is_string(kind) else word == "true" if pt.is_boolean(kind) else int(word)

    if wrong := [key for key in row if key not in schema.names]:
        raise ValueError(f"an example has {', '.join(wrong)}; the columns are {', '.join(schema.names)}")
    return {key: read(schema.field(key).type, word) for key, word in row.items()}


def _lines_of_rows(lines: Sequence[str]) -> Iterator[str]:
    """Yield a line a row: `final 0=1 1=2` is two rows, value 1 at offset 0 and value 2 at offset 1."""
    for line in lines:
        placed = re.findall(r"(?<!\S)(\d+)=(\S+)", line)
        rest = re.sub(r"(?<!\S)\d+=\S+", "", line)
        yield from (f"{rest} offset={offset} value={value}" for offset, value in placed)
        if not placed:
            yield line


def _rows(table: str, lines: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    begins_s = _BEGINS_S.get(table, 0)
    for number, line in enumerate(_lines_of_rows(lines)):
        words = dict(_words(line))
        is_final = words.pop("final", None) is not None
        at_s = float(words.pop("at", begins_s + number + (20 if is_final else 0)))
        times = {
            "sent_ns": 0,
            "asked_ns": 0,
            "polled_ns": 0.01,
            "done_ns": 0.01,
            "at_ns": 0.01 if table != "partitions" else 0,
        }
        row = usual_row(table)
        row |= {name: ns(at_s + later) for name, later in times.items() if name in row}
        if table == "sends":
            row |= {"sequence": number, "offset": None}
        if table == "partitions" and rows:
            # A state is that before it, with what the example says.
            moved = "leader" in words and words["leader"] != str(rows[-1]["leader"])
            row |= {key: value for key, value in rows[-1].items() if key != "at_ns"}
            row["leader_epoch"] += moved
        if table == "partitions":
            row["partition_epoch"] = rows[-1]["partition_epoch"] + 1 if rows else 0
        if is_final:
            row["consumer"] = FINAL_CONSUMER
        row |= _typed(words, TABLES[table])
        rows.append(row)
    return rows


def _manifest(tables: Mapping[str, list[Row]], setting: Mapping[str, str]) -> Manifest:
    places = {(row["topic"], row["partition"]) for name in ("sends", "polls") for row in tables.get(name, ())}
    ends = {
        str(TopicPartition(*place)): FinalOffsets(
            log_start=int(setting.get("log_start", "0")), high_watermark=_end(tables, place)
        )
        for place in places
    }
    asked = None
    if "last_stable" in setting:
        lso = int(setting["last_stable"])
        ends = {name: msgspec.structs.replace(one, last_stable=lso) for name, one in ends.items()}
        asked = FinalTransactions(states={"id": "CompleteAbort"}, still=dict.fromkeys(ends, lso))
    if "prepared" in setting:
        asked = FinalTransactions(states={"id": "PrepareCommit"}, waited_s=float(setting["prepared"]))
    producer = ProducerSetup(acks=-1, idempotent="idempotent" in setting, transactional="transactional" in setting)
    return Manifest(
        run_id="example",
        scenario="example",
        kafka=setting.get("kafka", "4.1.0"),
        features=ELR_ON,
        status="complete",
        topology=Topology(controllers=(100, 101, 102)[: int(setting.get("controllers", "3"))], brokers=(1, 2, 3)),
        topics={"t": TopicSetup(partitions=1, replication_factor=3, min_isr=int(setting.get("min_isr", "2")))},
        topic_ids={TOPIC_ID: "t"},
        log_dirs=2 if "directory" in setting else None,
        start_ns=ns(0),
        end_ns=ns(100),
        final_consumer=FINAL_CONSUMER,
        final_offsets=ends,
        final_transactions=asked,
        timings_s={"final read": float(setting["final_read"])} if "final_read" in setting else {},
        producers={"1": producer},
        wire=WireFacts(unrecorded={setting["published"]: 1}) if "published" in setting else None,
        node_ends=tuple(NodeEnd(node=node, at_ns=ns(60), fault="a fault") for node in setting.get("ended", "").split()),
    )


def _end(tables: Mapping[str, list[Row]], place: tuple[str, int]) -> int:
    polls = [row["offset"] for row in tables.get("polls", ()) if (row["topic"], row["partition"]) == place]
    return max(polls, default=-1) + 1


def write_transaction(log: Path, *, commits: bool, epoch: int = 0, marker_at: int = 1) -> None:
    """Write a log with one record of a transaction at offset 0, of producer epoch 0, and its marker."""
    says = struct.pack(">hh", 0, commits)
    marker = build.batch(marker_at, [(says, b"", ())], flags=_TRANSACTIONAL | _CONTROL, producer=(7, epoch, -1))
    build.write_log(log, build.batch(0, [(None, b"", ())], flags=_TRANSACTIONAL, producer=(7, 0, 0)), marker)


def _write_clock(folder: Path, words: Mapping[str, str]) -> None:
    """Write a reading for each second in which the metadata log grew."""
    seconds = range(int(words["from"]), int(words["to"]) + 1)
    readings = [ClockReading(at_ns=ns(at), wall_ns=ns(at), metadata_end=at) for at in seconds]
    (folder / CLOCK_FILE).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in readings))


def _write_log(folder: Path, words: Mapping[str, str]) -> None:
    """Write a line of a node's log, once or in each second; `_` stands for a blank."""
    (folder / LOGS_DIR).mkdir(exist_ok=True)
    with (folder / LOGS_DIR / f"{words['node']}.log").open("a") as log:
        for at_s in range(int(words["at"]), int(words.get("to", words["at"])) + 1):
            at = datetime.fromtimestamp(ns(at_s) / 1e9, UTC)
            log.write(f"{at:%Y-%m-%dT%H:%M:%S}.000Z [main] INFO - {words['says'].replace('_', ' ')}\n")


def _write_quorum(folder: Path, words: Mapping[str, str]) -> None:
    """Write the final logs of three controllers, up to `end`, and the batches that two had acknowledged."""

    for controller in (100, 101, 102):
        metadata_log(folder, controller, end=int(words["end"]))
    write_acknowledged(folder, int(words["acknowledged"]))


def metadata_log(record: Path, controller: int, *, end: int, epoch: int = 1) -> Path:
    """Write the final log of a controller: the batches 0 to `end` - 1 of epoch 1, and one of `epoch` if it is newer."""
    folder = record / RAW_DIR / f"controller-{controller}" / METADATA_FOLDER
    folder.mkdir(parents=True)
    batches = [build.metadata_batch(at, build.feature("metadata.version", 7)) for at in range(end)]
    if epoch > 1:
        batches.append(build.metadata_batch(end, build.feature("metadata.version", 7), epoch=epoch))
    (folder / build.segment_name(0)).write_bytes(b"".join(batches))
    return folder


def write_acknowledged(folder: Path, count: int) -> None:
    """Write that two controllers had acknowledged so many batches."""
    whole = MetadataFollower(metadata_log(folder / "before", 100, end=count))
    whole.poll()
    lines = [
        CommittedBatch(
            base_offset=one.base_offset,
            next_offset=one.next_offset,
            epoch=one.epoch,
            crc=one.crc,
            at_ns=ns(10),
            controllers=(100, 101),
        )
        for one in whole.batches
    ]
    (folder / QUORUM_FILE).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in lines))


def shows(found: Mapping[str, Any], gives: str) -> bool:
    """Whether an item or a row of evidence has the columns that an example gives."""
    return all(_spelt(found.get(key)) == value for key, value in _words(gives))


def _spelt(value: object) -> str:
    if value is None:
        return "-"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
