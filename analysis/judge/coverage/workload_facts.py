"""Counts what a run's clients did: transactions, rebalances, fencings and acks.

Counted from the clients' own events (`ebbtide.record.clients`) and the sends. A transaction is
*torn* when some of its acked records are lost and others are not, and *lost whole* when all of them
are. Both count committed transactions only, over all their partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow.compute as pc

from analysis.judge.history.sent import AckedCounts, CountAckedSends, CountCopies
from analysis.record.record import Record
from ebbtide.coverage_fact import Fact
from ebbtide.record.clients import ClientEvent
from ebbtide.record.files import ANOMALIES_DIR
from ebbtide.record.manifest import ACKS_SPELLED
from ebbtide.rules.table import LOST
from ebbtide.scenario.kafka_settings import OTHER_LIBRARIES

FACTS = (
    Fact("clients", "acked-with-acks-0", "records handed over with acks=0", "KIP-966, HW 5"),
    Fact("clients", "acks-0-gone", "of them, those that the final read does not have", "KIP-966, HW 5"),
    Fact("clients", "acked-with-acks-1", "records acked with acks=1", "KIP-966, HW 5"),
    Fact("clients", "acked-with-acks-all", "records acked with acks=all", "KIP-966, Motivation"),
    Fact(
        "clients",
        "acked-idempotent",
        "records acked to idempotent producers that are not transactional",
        "KIP-98, idempotent producer",
    ),
    Fact("clients", "acked-by-librdkafka", "records acked to producers that use librdkafka", "KIP-966, HW 5"),
    Fact("clients", "acked-by-java", "records acked to producers that use Kafka's own Java client", "KIP-966, HW 5"),
    Fact("clients", "transactions-committed", "transactions that ended committed", "KIP-98"),
    Fact("clients", "transactions-aborted", "transactions that ended aborted", "KIP-98, read_committed"),
    Fact("clients", "transactions-unknown", "transactions of which the producer never heard how they ended", "KIP-98"),
    Fact(
        "clients",
        "transactions-torn",
        "committed transactions of which some acked records are lost, and some are not",
        "KIP-98",
    ),
    Fact("clients", "transactions-lost-whole", "committed transactions of which all acked records are lost", "KIP-98"),
    Fact("clients", "copies-sent", "records that copiers sent, each a copy of a record that they read", "KIP-98"),
    Fact("clients", "producers-fenced", "producers that Kafka refused for a newer incarnation", "KIP-98"),
    Fact("clients", "producers-replaced", "producers that a new incarnation took over from", "KIP-98"),
    Fact("clients", "group-rebalances", "assignments to group members after their first"),
    Fact("clients", "truncations-detected", "times that a consumer found its position cut off", "KIP-320"),
    Fact("clients", "offsets-out-of-range", "times that a consumer asked for an offset that is not there"),
    Fact("clients", "offsets-reset", "resets that followed either"),
    Fact("clients", "offsets-reset-to-earlier", "such resets to an earlier offset"),
    Fact("clients", "offsets-reset-to-later", "such resets to a later offset"),
)

_RESETS = {"truncation": "truncations-detected", "out-of-range": "offsets-out-of-range"}
_OF_EVENTS = (
    "transactions-committed",
    "transactions-aborted",
    "transactions-unknown",
    "producers-fenced",
    "producers-replaced",
    "group-rebalances",
    *_RESETS.values(),
    "offsets-reset",
    "offsets-reset-to-earlier",
    "offsets-reset-to-later",
)


def count(record: Record) -> Counter[str]:
    """Count the facts; facts that need missing parts of the record are left out.

    Raises `UsageError` when a file of the record is damaged.
    """
    facts: Counter[str] = Counter({"copies-sent": sum(record.seen(CountCopies).values())})
    events = record.client_events
    if events is not None:
        facts.update(dict.fromkeys(_OF_EVENTS, 0))
        for of_client in events.values():
            _count_events(of_client, facts)
    if record.has("sends"):
        sends = record.seen(CountAckedSends)
        _count_acked(record, sends, facts)
        if record.folder.has_folder(ANOMALIES_DIR):
            _count_torn(record, sends.by_txn, facts)
    return facts


def _count_events(events: Sequence[ClientEvent], facts: Counter[str]) -> None:
    joined = False
    for one in events:
        match one.event:
            case "transaction":
                facts[f"transactions-{one.outcome}"] += 1
            case "fenced" | "replaced":
                facts[f"producers-{one.event}"] += 1
            case "assigned":
                # The first rebalance is the member's own joining.
                facts["group-rebalances"] += joined
                joined = True
            case "truncation" | "out-of-range":
                facts[_RESETS[one.event]] += 1
                facts["offsets-reset"] += 1
                if one.offset is not None and one.to is not None:
                    facts["offsets-reset-to-earlier"] += one.to < one.offset
                    facts["offsets-reset-to-later"] += one.to > one.offset


def _count_acked(record: Record, sends: AckedCounts, facts: Counter[str]) -> None:
    """Count acked sends by acks.

    Sends of idempotent producers that are not transactional, and of other client libraries, are counted apart.
    """
    setups = record.manifest.producers
    groups = {
        "acked-idempotent": [int(name) for name, one in setups.items() if one.idempotent and not one.transactional]
    }
    for library in OTHER_LIBRARIES:
        groups[f"acked-by-{library}"] = [int(name) for name, one in setups.items() if one.client == library]
    facts.update({fact: sum(sends.by_producer.get(one, 0) for one in ids) for fact, ids in groups.items()})
    facts.update({f"acked-with-acks-{word}": sends.by_acks.get(acks, 0) for acks, word in ACKS_SPELLED.items()})
    if sends.acks_0_gone is not None:
        facts["acks-0-gone"] = sends.acks_0_gone


def _count_torn(record: Record, acked: Mapping[int, int], facts: Counter[str]) -> None:
    """Count the committed transactions that lost some or all of their `acked` records."""
    values = record.items(["value"], pc.field("kind") == LOST)["value"]
    gone: Counter[int] = Counter()
    if acked and len(values):
        committed = (pc.field("txn_outcome") == "committed") & pc.field("txn").is_valid()
        is_gone = committed & (pc.field("status") == "acked") & pc.field("value").isin(values.combine_chunks())
        for batch in record.batches("sends", ["txn"], is_gone):
            gone.update(batch["txn"].to_pylist())
    facts["transactions-lost-whole"] = sum(count == acked[txn] for txn, count in gone.items())
    facts["transactions-torn"] = len(gone) - facts["transactions-lost-whole"]
