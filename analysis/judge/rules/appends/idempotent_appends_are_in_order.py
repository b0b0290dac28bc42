"""KIP-98: a leader appends a batch of an idempotent producer only if it follows the last one of that producer.

It refuses a batch of an older producer epoch: a newer one fences older incarnations, and from transaction.version 2 on
each transaction has one (KIP-890). It refuses a batch whose sequence leaves a gap, so that what got lost on its way is
sent again first. The order of a log decides, and no time. What stands in one log was appended to it in this order, or
copied from a leader that did so. So this holds in every replica's log, whatever it lost at its end:

- The epochs of a producer id never go back, of records and of the markers of transactions.
- Between two records of a producer id and epoch with no offset missing between them, no sequence is skipped.

Rows are compared within a batch of the table only, so a table of many batches has some neighbours that are not.

A leader that has forgotten a producer takes its next batch as the first one. That is after a day, by its own clock,
unless a property says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Compared, Finding, Judged, finding
from analysis.record.groups import Bools, Ints
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from ebbtide.scenario.steps.table import CLOCK_KINDS

_SEQUENCES = 1 << 31
"""The sequence after 2^31 - 1 is 0."""
_NUMBERS = ("offset", "producer_id", "producer_epoch", "sequence")


class FindProducerOrder(Scan[Compared]):
    """Compares each record of an idempotent producer with the one before it in the log."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "replicas": ("broker", "topic", "partition", *_NUMBERS, "control")
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._topics = record.manifest.topics.keys()
        self._is_wanted = any(one.idempotent or one.transactional for one in record.manifest.producers.values())
        self._logs: dict[tuple[str, int, int], list[Row]] = {}

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter."""
        return self._is_wanted

    def add(self, rows: Rows) -> None:
        """Add a batch of the replicas' logs."""
        offset, producer, epoch, sequence = (rows.numbers(name) for name in _NUMBERS)
        for log, every in rows.parts("partition", "broker"):
            here = every[producer[every] >= 0]
            if log[0] not in self._topics or not len(here):
                continue
            before, after = _neighbours(rows, here)
            self._keep(rows, log, before, after, epoch[after] < epoch[before])
            before, after = _neighbours(rows, here[~rows.flags("control")[here]])
            step = (sequence[after] - sequence[before]) % _SEQUENCES
            # A sequence that goes back is a duplicate, of which another clause knows.
            skipped = (epoch[after] == epoch[before]) & (step > 1) & (step < _SEQUENCES // 2)
            places = np.sort(offset[every])
            between = np.searchsorted(places, offset[after]) - np.searchsorted(places, offset[before])
            self._keep(rows, log, before, after, skipped & (between == offset[after] - offset[before]))

    def _keep(self, rows: Rows, log: tuple[str, int, int], before: Ints, after: Ints, found: Bools) -> None:
        """Keep the first record of a log, beside what the log has of its producer before it."""
        kept = self._logs.setdefault(log, [])
        if found.any() and not kept:
            at = np.flatnonzero(found)[np.argmin(rows.numbers("offset")[after[found]])]
            row: Row = dict(zip(("topic", "partition", "broker"), log, strict=True))
            row |= {name: int(rows.numbers(name)[after[at]]) for name in _NUMBERS}
            kept.append(row | {f"{name}_before": int(rows.numbers(name)[before[at]]) for name in _NUMBERS})

    def result(self) -> Compared:
        """Return the records, by their places."""
        return Compared(len(self._logs), [row for log in sorted(self._logs) for row in self._logs[log]])


def _neighbours(rows: Rows, here: Ints) -> tuple[Ints, Ints]:
    """Return each row and the next one of the same producer id in the log."""
    producer, offset = rows.numbers("producer_id"), rows.numbers("offset")
    ordered = here[np.lexsort((offset[here], producer[here]))]
    before, after = ordered[:-1], ordered[1:]
    same = producer[before] == producer[after]
    return before[same], after[same]


_FORGETTING = frozenset({"producer.id.expiration.ms", "transactional.id.expiration.ms"})


def _check(judged: Judged) -> Finding:
    found = judged.record.seen(FindProducerOrder)
    doubt = _why_forgotten(judged.record) if found.breaches else None
    return finding(exercised=found.cases, violations=found.breaches, doubt=doubt)


def _why_forgotten(record: Record) -> str | None:
    """Return why a leader may have forgotten a producer; None: none has."""
    known, steps = record.readable_scenario, record.proven_steps
    if known is None or steps is None:
        return "without the scenario and its steps it is not known how long brokers remember producers"
    if any(one.step in CLOCK_KINDS for one in steps):
        return "a clock was set, so that a broker may have forgotten a producer"
    changed = {one.asked.config for one in steps}
    if names := _FORGETTING & {*changed, *known.cluster.broker_properties}:
        return f"the scenario sets {min(names)}, so that a broker may have forgotten a producer"
    return None


RULE = Clause(
    kip="KIP-98",
    check=_check,
    scans=(FindProducerOrder,),
    reads_timeline=False,
    parts=("replicas",),
    needed="never",
    unknown_when=(
        "`replicas/` is not as the run left it, or a record is out of order, and a clock was set, a property says how "
        "long brokers remember producers, or the scenario or the steps are missing. Only with idempotent producers"
    ),
    example="""
        A record of producer epoch 0 stands behind one of epoch 1.
        setting: idempotent sends
        replicas: broker=1 offset=0 value=1 producer_id=7 producer_epoch=1 sequence=0;
          broker=1 offset=1 value=2 producer_id=7 producer_epoch=0 sequence=4
        gives: offset=1 producer_epoch=0 producer_epoch_before=1
    """,
)
