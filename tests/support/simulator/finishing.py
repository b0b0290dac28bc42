"""Ends a history: what its run record holds, and the truth of each lost record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ebbtide.record.clock import kafka_clocks
from simulator.clients import FINAL_CONSUMER, Send
from simulator.clocks import in_run_time
from simulator.controller import TOPIC
from simulator.degrading import degrade
from simulator.faults import ns
from simulator.history import LostRecord, TrueHistory
from simulator.replica import Entry

if TYPE_CHECKING:
    from simulator.simulation import Simulation


def finish(sim: Simulation) -> TrueHistory:
    """Return the history of a simulation that ended."""
    truth = sim.truth
    truth.all_elections = sim.controller.elections
    truth.mark_doubtful(sim)
    finals = sim.clients.read_all()
    standing = {row["value"] for row in sim.clients.polls if row["consumer"] == FINAL_CONSUMER}
    reads = {
        (row["value"], row["offset"], row["leader_epoch"])
        for row in sim.clients.polls
        if row["consumer"] != FINAL_CONSUMER
    }
    for number, state in sim.controller.partitions.items():
        if state.leader >= 0:
            standing |= {entry.value for entry in sim.brokers[state.leader].replicas[number].log}
    lost = tuple(
        _lost_record(sim, send, reads)
        for send in sim.clients.sends
        if send.status == "acked" and send.value not in standing and send.partition in finals
        if not truth.stood_twice_at_its_offset(send)
    )
    led = {one.election.metadata_offset for some in truth.leads.values() for one in some if one.led}
    steps, tables = sim.faults.steps(), _tables(sim)
    readings = sim.clocks.readings(sim.controller.offset)
    unsure_ns = in_run_time(tables, kafka_clocks(readings, steps))
    history = TrueHistory(
        script=sim.script,
        tables=tables,
        steps=steps,
        readings=readings,
        unsure_ns=unsure_ns,
        final_offsets=finals,
        lost=lost,
        violated=sim.controller.violated_at is not None or sim.violated > 0,
        log_begins=0,
        log_ends=sim.controller.offset,
        skipped=0,
        end_ns=ns(sim.now),
        led=frozenset(led),
        leaderless=tuple(number for number, state in sim.controller.partitions.items() if state.leader < 0),
    )
    return degrade(history)


def _lost_record(sim: Simulation, send: Send, reads: set[tuple[int, int, int]]) -> LostRecord:
    entry = send.entry
    assert entry is not None
    found, read = sim.truth.guilty(send.partition, entry), (entry.value, entry.offset, entry.epoch) in reads
    assert send.offset is not None
    assert send.done_at is not None
    winner = -1 if found is None else found.election.after.leader
    return LostRecord(
        partition=send.partition,
        value=send.value,
        offset=send.offset,
        acks=send.acks,
        epoch=entry.epoch,
        committed=entry.committed_at is not None or send.acks == -1,
        read=read,
        is_writer_shown=read or not sim.truth.may_have_another_writer(send.partition, send),
        sent_ns=ns(send.sent_at),
        done_ns=ns(send.done_at),
        right=sim.truth.right_answers(sim, send.partition, entry, read=read),
        winner=winner,
        winner_lacks="?" if found is None else found.fates.get(winner, "N"),
        road="?" if found is None else found.election.road,
    )


def _tables(sim: Simulation) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = {
        name: [{**row, "at_ns": ns(row["at_ns"])} for row in rows] for name, rows in sim.controller.rows.items()
    }
    tables["sends"] = [_sent(send) for send in sim.clients.sends]
    tables["polls"] = [{**row, "polled_ns": ns(row["polled_ns"])} for row in sim.clients.polls]
    tables["watermarks"] = [
        {**row, "asked_ns": ns(row["asked_ns"]), "at_ns": ns(row["at_ns"])} for row in sim.clients.samples
    ]
    tables["replicas"] = [
        _row(node, number, entry)
        for node, broker in sim.brokers.items()
        for number, replica in broker.replicas.items()
        if node in sim.controller.partitions[number].replicas
        for entry in replica.log
    ]
    return tables


def _sent(send: Send) -> dict[str, Any]:
    return {
        "topic": TOPIC,
        "partition": send.partition,
        "value": send.value,
        "producer": send.number,
        "sequence": send.value // 10,
        "acks": send.acks,
        "status": send.status,
        "offset": send.offset,
        "error": send.error,
        "txn": None,
        "txn_outcome": None,
        "sent_ns": ns(send.sent_at),
        "done_ns": None if send.done_at is None else ns(send.done_at),
    }


def _row(node: int, number: int, entry: Entry) -> dict[str, Any]:
    return {
        "broker": node,
        "topic": TOPIC,
        "partition": number,
        "offset": entry.offset,
        "leader_epoch": entry.epoch,
        "value": entry.value,
        "producer_id": -1,
        "producer_epoch": -1,
        "sequence": -1,
        "control": False,
        "timestamp_ms": ns(entry.wrote_at) // 1_000_000,
    }
