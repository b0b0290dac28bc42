"""Transactions that nobody ends."""

from __future__ import annotations

from reconcile_cases import Cases, Mutant, Unknown, transactional
from reconcile_oracle_tables import Item, PlacedTables
from records import RecordBuilder

from analysis.judge.rules.transactions import hanging_transaction as rule
from ebbtide.record.manifest import Manifest

KIND = "hanging-transaction"
_OPEN = {"Ongoing", "PrepareCommit", "PrepareAbort", None}


def ended() -> RecordBuilder:
    """A run whose coordinators ended every transaction."""
    return transactional().transactions(one="CompleteAbort", other="Empty")


def _open() -> RecordBuilder:
    return transactional().acked(1, 2, at=0).final(1, 2, at=0).end(high_watermark=2, last_stable=1)


CASES: Cases = {
    ended: {
        "an open transaction holds the LSO below the HW": (
            lambda b: (
                b.acked(1, at=0)
                .send(2, status="unknown", txn=7, txn_outcome="aborted", producer=3)
                .final(1, 2, at=0)
                .end(high_watermark=2, last_stable=1)
            ),
            {KIND: [(1, 2)]},
        ),
        "an LSO at the HW is that of a log without an open transaction": (
            lambda b: b.acked(1, at=0).final(1, at=0).end(high_watermark=1, last_stable=1),
            {},
        ),
        "a log in which markers stand last has its LSO above every record": (
            lambda b: (
                b.acked(1, at=0, txn=7, txn_outcome="committed").final(1, at=0).end(high_watermark=2, last_stable=2)
            ),
            {},
        ),
        "an open transaction whose first record is none of the run hangs all the same": (
            lambda b: b.acked(1, at=0).final(1, None, at=0).end(high_watermark=2, last_stable=1),
            {KIND: [(1, None)], "damaged": [(1, None)]},
        ),
        "a record that another consumer read at the LSO does not name the transaction": (
            lambda b: b.acked(1, 2, at=0).read(9, at=1).final(1, 2, at=0).end(high_watermark=2, last_stable=1),
            {KIND: [(1, 2)], "vanished": [(1, 9)], "inconsistent-offset": [(1, None)]},
        ),
        "a torn transaction, of which one record was passed over, is no hanging one": (
            lambda b: (
                b.acked(1, 2, 3, at=0, txn=7, txn_outcome="committed")
                .final(1, 2, 3, at=0, leader_epoch=0)
                .read(1, at=0, isolation="read_committed", leader_epoch=0)
                .read(3, at=2, prev_offset=0, isolation="read_committed", leader_epoch=0)
            ),
            {"poll-skip": [(2, 3)], "unseen": [(1, None)]},
        ),
        "a torn transaction, of which one record is in no log, is no hanging one": (
            lambda b: b.acked(1, 2, at=0, txn=7, txn_outcome="committed").final(1, at=0),
            {"lost": [(1, 2)]},
        ),
        "each partition has its own": (
            lambda b: (
                b.acked(1, at=0)
                .final(1, at=0)
                .end(high_watermark=1, last_stable=1)
                .acked(2, at=0, partition=1)
                .final(2, at=0, partition=1)
                .end(partition=1, high_watermark=1, last_stable=0)
            ),
            {KIND: [(0, 2)]},
        ),
    },
}

UNKNOWN: Unknown = {
    "nobody asked": (_open, "nobody asked for the last stable offsets"),
    "a broker was silent": (
        lambda: _open().transactions("b:9092", one="Empty"),
        "b:9092 did not say which transactions",
    ),
    "a transaction goes on": (
        lambda: _open().transactions(one="Ongoing", other="Empty", waited_s=35.2),
        "the coordinators had not ended every transaction after 35 s: one is Ongoing",
    ),
    "a transaction is about to end": (
        lambda: _open().transactions(one="PrepareAbort"),
        "the coordinators had not ended every transaction",
    ),
    "a transaction has no state": (
        lambda: _open().transactions(one=None),
        "the coordinators had not ended every transaction after 0 s: one is not",
    ),
    "the LSO moved": (
        lambda: _open().transactions(one="CompleteAbort", still=False),
        "the last stable offset of t-0 had not stood still for 5 s",
    ),
}

MUTANTS: tuple[Mutant, ...] = (
    (rule, "ends.last_stable < ends.high_watermark", "ends.last_stable <= ends.high_watermark"),
    (rule, " and why_unknown(facts) is None", ""),
    (rule, 'F.min("value")', 'F.max("value")'),
    (rule, 'F.col("consumer").alias("final_consumer")', 'F.lit(9999).alias("final_consumer")'),
    (rule, 'F.col("offset").alias("last_stable"),', '(F.col("offset") + 1).alias("last_stable"),'),
    (rule, "still.get(name) != facts.final_offsets[name].last_stable", "False"),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """An item for each partition whose LSO is below its HW, once every coordinator has ended what it had.

    None of a run in which such an LSO had not stood still.
    """
    asked = manifest.final_transactions
    if asked is None or asked.silent or _OPEN & set(asked.states.values()):
        return []
    items: list[Item] = []
    for name, end in manifest.final_offsets.items():
        topic, _, number = name.rpartition("-")
        if end.last_stable is None or end.last_stable >= end.high_watermark:
            continue
        if name not in asked.still or asked.still[name] != end.last_stable:
            return []
        values = [
            row["value"]
            for row in tables["polls"]
            if (row["topic"], row["partition"], row["offset"]) == (topic, int(number), end.last_stable)
            and manifest.final_consumer is not None
            and row["consumer"] == manifest.final_consumer
            and row["value"] is not None
        ]
        items.append(("hanging-transaction", topic, int(number), end.last_stable, min(values, default=None)))
    return items


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """An open transaction at the end of each of some partitions; on others the LSO is the HW, or nobody read above."""
    for number in range(n):
        columns = {"partition": 1 + number, "txn": 1, "txn_outcome": "aborted"}
        b.send(100 + number, at=5, status="unknown", **columns).final(100 + number, at=5, partition=1 + number)
        b.end(partition=1 + number, high_watermark=6, last_stable=5)
    b.acked(200, at=5, partition=50).final(200, at=5, partition=50)
    b.end(partition=50, high_watermark=6, last_stable=6)
    return {"hanging-transaction": n}
