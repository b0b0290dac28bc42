"""Makes of a history what the causes are judged from, in memory and without a run record."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.causes.evidence import (
    NEVER,
    SLACK_NS,
    UNKNOWN,
    AckedSends,
    ClusterEvidence,
    DiskLoss,
    InForce,
    MeasuredEnds,
    PartitionEvidence,
    ReadRows,
    Watermarks,
    column,
)
from analysis.causes.from_record import downs_of, silences_of, unclean_requests_of
from analysis.record.requests import requests
from analysis.spec.partition import MV_FETCH_CARRIES_BROKER_EPOCH
from analysis.spec.variants import protocol_for
from ebbtide.record.rows import BrokerEvent, PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.releases.known_releases import ELR_VERSION, METADATA_VERSION
from ebbtide.scenario.steps.disk import DirectoryStep
from ebbtide.scenario.steps.step import StepProof
from simulator.clients import FINAL_CONSUMER
from simulator.controller import MIN_ISR, TOPIC, UNCLEAN
from simulator.history import Row, TrueHistory

_LISTS = ("replicas", "isr", "elr", "last_known_elr", "adding", "removing")


def core_histories(history: TrueHistory) -> list[PartitionEvidence]:
    """Return the input of the causes for each partition."""
    cluster = _cluster(history)
    return [_partition(history, cluster, number) for number in range(history.script.setup.partitions)]


def _cluster(history: TrueHistory) -> ClusterEvidence:
    steps = history.steps or []
    events = history.tables["brokers"]
    return ClusterEvidence(
        broker_events=tuple(BrokerEvent(**row) for row in events) or None,
        downs=tuple(downs_of(steps)),
        silences=tuple(silences_of(steps)),
        steps_known=history.steps is not None,
        log_whole=not history.skipped,
        log_torn=history.is_torn or history.skipped > 0,
        slack_ns=SLACK_NS + max((last - first for first, last in history.unsure_ns), default=0),
    )


def _partition(history: TrueHistory, cluster: ClusterEvidence, number: int) -> PartitionEvidence:
    steps, tables = history.steps or [], history.tables

    def mine(table: str) -> list[Row]:
        return [row for row in tables[table] if row["partition"] == number]

    polls, replicas = mine("polls"), mine("replicas")
    return PartitionEvidence(
        topic=TOPIC,
        partition=number,
        cluster=cluster,
        states=tuple(
            PartitionState(**{**row, **{name: tuple(row[name]) for name in _LISTS}}) for row in mine("partitions")
        ),
        rules=tuple(_rules(history)),
        disks=tuple(_disks(steps, number)),
        requests=tuple(unclean_requests_of(requests(steps), f"{TOPIC}-{number}")),
        sends=_sends([row for row in mine("sends") if row["status"] == "acked" and row["offset"] is not None]),
        polls=_read([row for row in polls if row["consumer"] != FINAL_CONSUMER]),
        final=_read([row for row in polls if row["consumer"] == FINAL_CONSUMER], timed=False),
        replicas={
            broker: _read([row for row in replicas if row["broker"] == broker], timed=False)
            for broker in sorted({row["broker"] for row in replicas})
        },
        watermarks=_watermarks(mine("watermarks")),
    )


def _rules(history: TrueHistory) -> Iterable[InForce]:
    setup = history.script.setup
    protocol, known = protocol_for(setup.kafka, setup.features), bool(history.tables["configs"])
    unclean: bool | None = False if known or not protocol.reads_unclean_config else None
    min_isr, version = setup.min_isr, setup.features[METADATA_VERSION]
    elr = setup.features.get(ELR_VERSION, 0) >= 1
    kip_903 = protocol.checks_epochs and version >= MV_FETCH_CARRIES_BROKER_EPOCH
    kinds = {step.step for step in history.steps or ()} if history.steps is not None else {"set-config", "set-feature"}
    unrecorded = set() if known else kinds
    at = at_ns = 0
    for row in (None, *history.tables["configs"]):
        if row is not None:
            at, at_ns = row["metadata_offset"], row["at_ns"]
            if row["name"] == MIN_ISR:
                min_isr = int(row["value"])
            elif row["resource"] == f"feature:{ELR_VERSION}":
                elr = int(row["value"]) >= 1
            elif row["resource"] == f"feature:{METADATA_VERSION}":
                kip_903 = protocol.checks_epochs and int(row["value"]) >= MV_FETCH_CARRIES_BROKER_EPOCH
            elif row["name"] == UNCLEAN:
                unclean = row["value"] == "true" and protocol.reads_unclean_config
            else:
                continue
        yield InForce(
            metadata_offset=at,
            at_ns=at_ns,
            elr=None if "set-feature" in unrecorded else elr,
            kip_903=None if "set-feature" in unrecorded else kip_903,
            unclean=unclean,
            min_isr=None if "set-config" in unrecorded else min(min_isr, setup.brokers),
        )


def _disks(steps: list[StepEntry], number: int) -> Iterable[DiskLoss]:
    name = f"{TOPIC}-{number}"
    for step in steps:
        if step.step not in ("power-loss", "wipe-disk"):
            continue
        for node in step.nodes:
            gone, proof = step.times_of(node).log_gone, step.figures(StepProof).of(node)
            if gone is None:
                continue
            log, holds = (proof.logs or {}).get(name), step.figures(DirectoryStep.Proof).of(node).holds
            if holds is not None and name not in holds:
                continue
            if log is None or log.leo_before is None or log.leo_after is None:
                # A replaced disk took whatever was there.
                taken = MeasuredEnds(NEVER, 0) if step.step == "wipe-disk" else None
                yield DiskLoss(broker=node, within=gone, ends=taken)
            else:
                yield DiskLoss(broker=node, within=gone, ends=MeasuredEnds(log.leo_before, log.leo_after))


def _sends(rows: list[Row]) -> AckedSends:
    return AckedSends(**{name: column([row[name] for row in rows]) for name in AckedSends.__struct_fields__})


def _read(rows: list[Row], *, timed: bool = True) -> ReadRows:
    return ReadRows(
        value=column([row["value"] for row in rows]),
        offset=column([row["offset"] for row in rows]),
        epoch=column([UNKNOWN if row["leader_epoch"] is None else row["leader_epoch"] for row in rows]),
        at_ns=column([row["polled_ns"] if timed else UNKNOWN for row in rows]),
    )


def _watermarks(rows: list[Row]) -> Watermarks:
    rows = sorted(rows, key=lambda row: row["at_ns"])
    return Watermarks(
        broker=column([row["broker"] for row in rows]),
        epoch=column([row["leader_epoch"] for row in rows]),
        high_watermark=column([row["high_watermark"] for row in rows]),
        asked_ns=column([row["asked_ns"] for row in rows]),
        at_ns=column([row["at_ns"] for row in rows]),
    )
