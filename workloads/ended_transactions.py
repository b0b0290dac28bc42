"""Waits until the transactions of a run have ended, before the final read.

No producer runs any more. What one left open is aborted by its coordinator after the transaction timeout. A partition
whose last stable offset (LSO) is still below its HW after that has a transaction that no coordinator will ever end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from cluster.kafka_api.connection import LATEST, NONE, BrokerConnection, WireError
from cluster.kafka_api.transaction_states import transaction_states
from ebbtide.record.manifest import ENDED_STATES, FinalTransactions
from ebbtide.scenario.model import ProducerSpec
from ebbtide.waiting import pause
from workloads.config import Endpoints, FinalReadConfig
from workloads.process import Stop
from workloads.reaching import connection_to
from workloads.sampler import partitions_of

ENDING_S = 35.0
"""How long open transactions are waited for.

The transaction timeout (20 s, `workloads.settings`), the interval at which coordinators look for what timed out
(10 s by default), and 5 s to write the markers.
"""
_STILL_S = 5.0
"""How long an LSO must stand still below the HW after every transaction has ended: a marker is applied by then."""
_AGAIN_S = 0.5


def transactional_id(producer: ProducerSpec) -> str:
    """Return the transactional id of a producer, the same in all its incarnations."""
    return f"ebbtide-{producer.id}"


def last_stable_offsets(broker: BrokerConnection, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Return the LSO of each of these partitions that the broker leads. Raises `WireError`."""
    answers = broker.list_offsets(partitions, LATEST, committed=True)
    return {(one.topic, one.partition): one.offset for one in answers if one.error == NONE}


def await_ended_transactions(config: FinalReadConfig, stop: Stop) -> FinalTransactions:
    """Wait until the LSO of every partition is its HW, at most `config.transactions_s`.

    Returns what the coordinators said last. If an LSO stands still although every transaction has ended, the wait
    ends early.
    """
    began = time.monotonic()
    ended_since: float | None = None
    while True:
        states, silent = _ask_states(config.endpoints, config.bootstrap, config.transactional_ids)
        now = time.monotonic()
        found = FinalTransactions(states=states, silent=silent, waited_s=round(now - began, 3))
        if found.why_open() is not None:
            ended_since = None
        elif ended_since is None:
            ended_since = now
        is_still = ended_since is not None and now - ended_since >= _STILL_S
        if stop or is_still or now - began >= config.transactions_s or _is_stable(config):
            return found
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


def _is_stable(config: FinalReadConfig) -> bool:
    """Whether the LSO of every partition is its HW."""
    partitions = partitions_of(config.topics)
    stable: set[tuple[str, int]] = set()
    for address in config.bootstrap:
        try:
            with connection_to(config.endpoints, address) as broker:
                marks = broker.list_offsets(partitions, LATEST)
                last_stable = last_stable_offsets(broker, partitions)
        except WireError:
            continue
        at_hw = {(one.topic, one.partition) for one in marks if one.error == NONE and one.offset >= 0}
        high_watermarks = {(one.topic, one.partition): one.offset for one in marks}
        stable |= {key for key, offset in last_stable.items() if key in at_hw and offset >= high_watermarks[key]}
    return stable >= set(partitions)
