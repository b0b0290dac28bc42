"""KIP-98: a leader appends a batch of an idempotent producer only if it follows the last one of that producer.

It refuses a batch of an older producer epoch: a newer one fences older incarnations, and from transaction.version 2 on
each transaction has one (KIP-890). It refuses a batch whose sequence leaves a gap, so that what got lost on its way is
sent again first. In each replica's log both must be in order (`analysis.judge.history.producer_order`).

A leader that has forgotten a producer takes its next batch as the first one. That is after a day, by its own clock,
unless a property says otherwise.
"""

from __future__ import annotations

from analysis.judge.history.producer_order import FindProducerOrder
from analysis.judge.rules.clause import Clause, Finding, Judged, finding
from analysis.record.record import Record
from ebbtide.scenario.steps.table import CLOCK_KINDS

_FORGETTING = frozenset({"producer.id.expiration.ms", "transactional.id.expiration.ms"})


def _check(judged: Judged) -> Finding:
    found = judged.record.seen(FindProducerOrder)
    doubt = _why_forgotten(judged.record) if found.first else None
    return finding(exercised=found.logs, violations=found.first, doubt=doubt)


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
