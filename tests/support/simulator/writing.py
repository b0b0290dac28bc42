"""Writes a history as a run record of today's format."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.evidence.report import ControllerLog, TimelineReport, save
from ebbtide.logs.scan import Damage
from ebbtide.record.files import CLOCK_FILE, RecordFolder
from ebbtide.record.manifest import FinalOffsets, Manifest, ProducerSetup, TopicSetup, Topology, write_manifest
from ebbtide.record.steps import write_steps
from ebbtide.record.tables import TABLES
from simulator.clients import FINAL_CONSUMER
from simulator.controller import CONTROLLER, TOPIC
from simulator.faults import ns
from simulator.history import TrueHistory

_SCENARIO = """\
name = "simulated"
title = "simulated"
description = "simulated"
kafka = ["{kafka}"]
settle_s = 60.0

[cluster]
controllers = 1
brokers = {brokers}
session_timeout_s = {session}
replica_lag_max_s = {lag}

[topics.t]
partitions = {partitions}
replication_factor = {rf}
min_isr = {min_isr}

[[producers]]
id = 1
topic = "t"
acks = "all"
count = 1000
rate_per_s = 100.0
payload_bytes = 64

[[steps]]
step = "wait"
[steps.trigger]
after = "1s"

[[predictions]]
kafka = ">=3.0"
clause = "anything that the protocol allows"
hw_regression = "any"
anomalies = "any"
[predictions.loss]
committed = "any"
uncommitted = "any"
"""

_TORN = Damage(position=4096, size=100, kind="torn", detail="fewer bytes than the batch claims", tail=True)


def manifest_of(history: TrueHistory) -> Manifest:
    """Return the manifest of a history's run record."""
    setup = history.script.setup
    return Manifest(
        run_id=f"simulated-{history.script.seed}",
        scenario="simulated",
        seed=history.script.seed,
        kafka=setup.kafka,
        runtime="local",
        features=setup.features,
        power_loss_method="ext4-shutdown",
        topology=Topology(controllers=(CONTROLLER,), brokers=tuple(range(1, setup.brokers + setup.spares + 1))),
        topics={
            TOPIC: TopicSetup(partitions=setup.partitions, replication_factor=setup.brokers, min_isr=setup.min_isr)
        },
        clients={"kafka-python": "3.0.12"},
        host={"kernel": "6.1"},
        start_ns=ns(0),
        end_ns=history.end_ns,
        status="complete",
        log_dirs=setup.directories if setup.directories > 1 else None,
        final_consumer=FINAL_CONSUMER,
        final_offsets={
            f"{TOPIC}-{number}": FinalOffsets(log_start=0, high_watermark=end)
            for number, end in history.final_offsets.items()
        },
        producers={
            str(number): ProducerSetup(acks=acks, idempotent=False, transactional=False)
            for number, acks in enumerate(setup.acks, 1)
        },
    )


def write_record(history: TrueHistory, folder: Path) -> Path:
    """Write the run record of a history; returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    setup = history.script.setup
    write_manifest(RecordFolder(folder), manifest_of(history))
    for name, rows in history.tables.items():
        if rows:
            table = pa.Table.from_pylist(rows, schema=TABLES[name])
            pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
    if history.readings:
        lines = b"\n".join(msgspec.json.encode(one) for one in history.readings)
        (folder / CLOCK_FILE).write_bytes(lines + b"\n")
    if history.steps is not None:
        write_steps(RecordFolder(folder), history.steps)
    (folder / "scenario.toml").write_text(
        _SCENARIO.format(
            kafka=setup.kafka,
            brokers=setup.brokers + setup.spares,
            session=setup.session_timeout / 1e6,
            lag=setup.lag_max / 1e6,
            partitions=setup.partitions,
            rf=setup.brokers,
            min_isr=setup.min_isr,
        )
    )
    log = ControllerLog(
        controller=CONTROLLER,
        start_offset=history.log_begins,
        end_offset=history.log_ends,
        last_epoch=1,
        agreed_end_offset=history.log_ends,
        damage=_TORN if history.is_torn else None,
    )
    skipped = {"unreadable": history.skipped} if history.skipped else {}
    report = TimelineReport(
        controller=CONTROLLER,
        how=f"the log of controller {CONTROLLER}",
        end_offset=history.log_ends,
        logs=(log,),
        missing=(),
        skipped=skipped,
        unsure_ns=history.unsure_ns,
    )
    save(RecordFolder(folder), "timeline", report)
    return folder
