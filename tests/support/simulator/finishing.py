"""Ends a history: what its run record holds, and the truth of each lost record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from usual_rows import usual_row

from ebbtide.record.clock import kafka_clocks
from simulator.clients import FINAL_CONSUMER, Send
from simulator.clocks import in_run_time
from simulator.degrading import degrade
from simulator.faults import ns
from simulator.history import FALL, VANISHED, LostRecord, Row, TrueHistory
from simulator.replica import Entry
from simulator.truth import Missing

if TYPE_CHECKING:
    from simulator.simulation import Simulation

_VANISHED_MAX = 6
"""About as many vanished records of a history are asked for."""


def finish(sim: Simulation) -> TrueHistory:
    """Return the history of a simulation that ended."""
    truth = sim.truth
    truth.all_elections = sim.controller.elections
    truth.mark_doubtful(sim)
    finals = sim.clients.read_all()
    standing = {row["value"] for row in sim.clients.polls if row["consumer"] == FINAL_CONSUMER}
    for number, state in sim.controller.partitions.items():
        if state.leader >= 0:
            standing |= {entry.value for entry in sim.brokers[state.leader].replicas[number].log}
    lost = (*_lost(sim, standing, finals), *_vanished(sim, standing, finals), *_falls(sim))
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


def _lost(sim: Simulation, standing: set[int], finals: Mapping[int, int]) -> Iterator[LostRecord]:
    """Yield the records that were acked and are gone."""
    reads = {(row["value"], row["offset"], row["leader_epoch"]) for row in _polls(sim)}
    for send in sim.clients.sends:
        if send.status != "acked" or send.value in standing or send.partition not in finals:
            continue
        entry = send.entry
        assert entry is not None
        assert send.done_at is not None
        read = (entry.value, entry.offset, entry.epoch) in reads
        if not sim.truth.stood_twice_at_its_offset(send.partition, entry):
            yield _gone(
                sim,
                Missing(send.partition, entry, read),
                is_writer_shown=(read and "polls-epochs" not in sim.script.lacks)
                or not sim.truth.may_have_another_writer(sim, send.partition, send),
                sent_ns=ns(send.sent_at),
                done_ns=ns(send.done_at),
            )


def _vanished(sim: Simulation, standing: set[int], finals: Mapping[int, int]) -> Iterator[LostRecord]:
    """Yield some records that were read and are gone, although nobody got an ack for them."""
    acked = {send.value for send in sim.clients.sends if send.status == "acked"}
    found: dict[tuple[int, int], tuple[Entry, int]] = {}
    entries = {
        (number, one.value, one.offset, one.epoch): one for number, some in sim.truth.entries.items() for one in some
    }
    for row in _polls(sim):
        number, value, offset, epoch = row["partition"], row["value"], row["offset"], row["leader_epoch"]
        entry = entries[number, value, offset, epoch]
        is_gone = value not in acked and value not in standing and number in finals
        if is_gone and not sim.truth.stood_twice_at_its_offset(number, entry):
            found.setdefault((number, value), (entry, row["polled_ns"]))
    for (number, _), (entry, read_at) in sorted(found.items())[:: max(1, len(found) // _VANISHED_MAX)]:
        yield _gone(sim, Missing(number, entry, read=True), kind=VANISHED, done_ns=ns(read_at))


def _falls(sim: Simulation) -> Iterator[LostRecord]:
    """Yield the HWs that went back: the lowest one under an epoch, below the highest one under the epoch before."""
    for number in range(sim.setup.partitions):
        epochs: dict[int, list[tuple[Row, Entry | None]]] = {}
        for place, (row, below) in enumerate(zip(sim.clients.samples, sim.clients.below, strict=True)):
            if row["partition"] == number and place not in sim.clients.older:
                epochs.setdefault(row["leader_epoch"], []).append((row, below))
        for before, epoch in pairwise(sorted(epochs)):
            low = min(epochs[epoch], key=lambda one: (one[0]["high_watermark"], one[0]["at_ns"]))[0]
            earlier = [one for one in epochs[before] if one[0]["at_ns"] <= low["asked_ns"]]
            high, entry = max(earlier, key=lambda one: (one[0]["high_watermark"], one[0]["at_ns"]), default=(low, None))
            orders = [one.order for one in sim.truth.all_elections if one.partition == number]
            mine = [order for order in orders if sim.truth.all_elections[order].after.leader_epoch == epoch]
            if entry is not None and high["high_watermark"] > low["high_watermark"] and len(mine) == 1:
                yield _gone(
                    sim,
                    Missing(number, entry, read=True, until=mine[0]),
                    kind=FALL,
                    epoch=before,
                    until=epoch,
                    done_ns=ns(high["at_ns"]),
                )


def _polls(sim: Simulation) -> Iterator[Row]:
    return (row for row in sim.clients.polls if row["consumer"] != FINAL_CONSUMER)


def _gone(sim: Simulation, missing: Missing, **known: Any) -> LostRecord:
    entry, found = missing.entry, sim.truth.guilty(missing)
    winner = -1 if found is None else found.election.after.leader
    fields = {
        "epoch": entry.epoch,
        "is_writer_shown": True,
        "sent_ns": ns(entry.wrote_at),
        **known,
    }
    return LostRecord(
        partition=missing.partition,
        value=entry.value,
        offset=entry.offset,
        acks=entry.acks,
        committed=entry.committed_at is not None or entry.acks == -1,
        read=missing.read,
        right=sim.truth.right_answers(sim, missing),
        winner=winner,
        winner_lacks="?" if found is None else found.fates.get(winner, "N"),
        road="?" if found is None else found.election.road,
        **fields,
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
    return usual_row(
        "sends",
        partition=send.partition,
        value=send.value,
        producer=send.number,
        sequence=send.value // 10,
        acks=send.acks,
        status=send.status,
        offset=send.offset,
        error=send.error,
        sent_ns=ns(send.sent_at),
        done_ns=None if send.done_at is None else ns(send.done_at),
    )


def _row(node: int, number: int, entry: Entry) -> dict[str, Any]:
    return usual_row(
        "replicas",
        broker=node,
        partition=number,
        offset=entry.offset,
        leader_epoch=entry.epoch,
        value=entry.value,
        timestamp_ms=ns(entry.wrote_at) // 1_000_000,
    )
