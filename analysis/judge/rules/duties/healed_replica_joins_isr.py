"""KIP-903: a follower that runs, fetches and has caught up comes back into the ISR.

"Broker is online → Fetch and catch up → candidate for ISR → expand with AlterPartition." Judged at the end of a run,
once each fault is healed, and the leader and the follower are unfenced. `replica.lag.time.max.ms` is allowed, and the
time to copy the log. A follower that took longer is excused: a host may be busy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from analysis.judge.rules.clause import Clause, Finding, Judged, state_row
from analysis.judge.rules.duties.duty import (
    SECOND_NS,
    Duty,
    finding_on_duties,
    healed_ns,
    lasting_partitions,
    unfenced_since,
)
from analysis.record.record import Record
from ebbtide.record.rows import PartitionState
from ebbtide.scenario.steps.disk import TornWriteStep

_DAMAGED = "damaged"
_SLOWS_FETCHES = re.compile(r"^replica\.|throttled")
"""Where somebody set how followers fetch, nobody knows how long they may take."""
_BYTES_PER_S = 20_000_000
"""So much is copied at least, counted over all replicas of the run; on two idle cores it is some ten times as much."""
_BYTES_OF_A_RECORD = 200
"""The most that a record takes beside its payload."""


def _check(judged: Judged) -> Finding:
    torn = any(step.is_a(TornWriteStep) for step in judged.record.proven_steps or ())
    is_damaged = torn or any(one.kind == _DAMAGED for one in judged.found.anomalies)
    doubt = "a disk left damage in a log, which a follower may not get past" if is_damaged else None
    return finding_on_duties(judged.record, _duties(judged.record, doubt))


def _duties(record: Record, doubt: str | None) -> Iterator[Duty]:
    known, healed = record.readable_scenario, healed_ns(record)
    if known is None or healed is None or record.manifest.raw_omitted or not record.has("replicas"):
        return
    settings = (*known.cluster.broker_properties, *(one.name for one in record.timeline.configs))
    if any(_SLOWS_FETCHES.search(name) for name in settings):
        return
    payload = max((one.payload_bytes for one in known.producers), default=0)
    copying_s = record.row_counts["replicas"] * (payload + _BYTES_OF_A_RECORD) / _BYTES_PER_S
    for states in lasting_partitions(record).values():
        last = states[-1]
        if last.leader < 0 or last.adding or last.removing:
            continue
        led_ns = next(one.at_ns for one in states if one.leader_epoch == last.leader_epoch)
        for follower in sorted({*last.replicas} - {last.leader}):
            leader_ns, follower_ns = (unfenced_since(record, one) for one in (last.leader, follower))
            if leader_ns is None or follower_ns is None:
                continue
            out_ns = [one.at_ns for one in _without(follower, states)]
            since_ns = max(healed, led_ns, leader_ns, follower_ns, *out_ns[-1:])
            yield Duty(
                about=state_row(last, follower=follower),
                since_ns=since_ns,
                within_ns=int((known.cluster.replica_lag_max_s + copying_s) * SECOND_NS),
                kept_ns=since_ns if follower in last.isr else None,
                doubt=doubt,
            )


def _without(follower: int, states: Sequence[PartitionState]) -> Iterator[PartitionState]:
    """Yield the last states, newest first, in which a broker was not in the ISR."""
    return takewhile(lambda one: follower not in one.isr, reversed(states))


RULE = Clause(
    kip="KIP-903",
    check=_check,
    parts=("replicas",),
    applies=lambda judged: judged.record.manifest.watch is None,
    needed="never",
    compares_times=True,
    unknown_when=(
        "a replica is not in the ISR at the end, and the run ended soon, or the leader or the follower was not alive "
        "all the time"
    ),
    example="""
        Broker 3 is not in the ISR from 5 s on. Nothing is broken until 70 s, and brokers 1 and 3 are unfenced.
        setting: sends
        partitions: leader=1; at=5 isr=1,2
        replicas: broker=1 offset=0 value=1
        clock: from=0 to=70
        gives: follower=3 isr=1,2
    """,
)
