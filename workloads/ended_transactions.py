"""Waits until the transactions of a run have ended, before the final read.

No producer runs any more. What one left open is aborted by its coordinator after the transaction timeout. A partition
whose last stable offset (LSO) is still below its HW after that has a transaction that no coordinator will ever end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from cluster.kafka_api.connection import LATEST, NONE, BrokerConnection, WireError
from cluster.kafka_api.group_offsets import transaction_states
from ebbtide.record.manifest import ENDED_STATES, STILL_S, FinalTransactions
from ebbtide.scenario.model import ProducerSpec
from ebbtide.waiting import pause
from workloads.config import Endpoints, FinalReadConfig
from workloads.process import Stop
from workloads.reaching import connection_to
from workloads.sampler import partitions_of

ENDING_S = 35.0 + STILL_S
"""How long open transactions are waited for.

The transaction timeout (20 s, `workloads.library_settings`), the interval at which coordinators look for what timed out
(10 s by default), 5 s to write the markers, and the time in which an LSO must stand still.
"""
_AGAIN_S = 0.5


def transactional_id(producer: ProducerSpec) -> str:
    """Return the transactional id of a producer, the same in all its incarnations."""
    return f"ebbtide-{producer.id}"


def last_stable_offsets(broker: BrokerConnection, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Return the LSO of each of these partitions that the broker leads. Raises `WireError`."""
    answers = broker.list_offsets(partitions, LATEST, committed=True)
    return {(one.topic, one.partition): one.offset for one in answers if one.error == NONE}


class _Mark(NamedTuple):
    """What the leader of a partition answers."""

    high_watermark: int
    last_stable: int
    leader_epoch: int | None


def await_ended_transactions(config: FinalReadConfig, stop: Stop) -> FinalTransactions:
    """Wait until the LSO of every partition is its HW, at most `config.transactions_s`.

    Returns what the coordinators said last. If every LSO below its HW stands still although every transaction has
    ended, the wait ends early.
    """
    began = time.monotonic()
    since: dict[tuple[str, int], tuple[_Mark, float]] = {}
    partitions = set(partitions_of(config.topics))
    while True:
        states, silent = _ask_states(config.endpoints, config.bootstrap, config.transactional_ids)
        marks = _ask_marks(config)
        now = time.monotonic()
        found = FinalTransactions(states=states, silent=silent, waited_s=round(now - began, 3))
        if found.why_open() is not None:
            since = {}
        else:
            since = {
                key: since[key] if key in since and since[key][0] == mark else (mark, now)
                for key, mark in marks.items()
            }
        below = {key for key, mark in marks.items() if mark.last_stable < mark.high_watermark}
        still = {key for key in below & since.keys() if now - since[key][1] >= STILL_S}
        is_settled = marks.keys() >= partitions and below == still
        if stop or is_settled or now - began >= config.transactions_s:
            return replace(found, still={f"{key[0]}-{key[1]}": marks[key].last_stable for key in sorted(still)})
        pause(_AGAIN_S)


def _ask_states(
    endpoints: Endpoints, bootstrap: Sequence[str], ids: Sequence[str]
) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """Return the state of each id, None if nobody names it, and the brokers that did not answer.

    Where two brokers name one id, the one that says it has not ended counts.
    """
    states: dict[str, str | None] = dict.fromkeys(ids)
    silent = []
    for address in bootstrap:
        try:
            with connection_to(endpoints, address) as broker:
                answers = transaction_states(broker)
        except WireError:
            silent.append(address)
            continue
        for name in ids:
            if name in answers and states[name] in (None, *ENDED_STATES):
                states[name] = answers[name]
    return states, tuple(silent)


def _ask_marks(config: FinalReadConfig) -> dict[tuple[str, int], _Mark]:
    """Return what the leaders answer; a partition whose leader does not answer is missing."""
    partitions = partitions_of(config.topics)
    marks: dict[tuple[str, int], _Mark] = {}
    for address in config.bootstrap:
        try:
            with connection_to(config.endpoints, address) as broker:
                latest = broker.list_offsets(partitions, LATEST)
                last_stable = last_stable_offsets(broker, partitions)
        except WireError:
            continue
        for one in latest:
            key = (one.topic, one.partition)
            if one.error == NONE and one.offset >= 0 and key in last_stable:
                # Asked after the HW, so that a marker in between may show it above that.
                marks[key] = _Mark(one.offset, min(one.offset, last_stable[key]), one.leader_epoch)
    return marks
