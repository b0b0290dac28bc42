"""KIP-98: a leader appends a batch of an idempotent producer only if it follows the last one of that producer.

It refuses a batch of an older producer epoch: a newer one fences older incarnations, and from transaction.version 2 on
each transaction has one (KIP-890). It refuses a batch whose sequence leaves a gap, so that what got lost on its way is
sent again first. In each replica's log both must be in order (`analysis.judge.history.producer_order`).
"""

from __future__ import annotations

from analysis.judge.history.producer_order import FindProducerOrder
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.findings import Finding, finding
from analysis.judge.rules.judged import Judged


def _check(judged: Judged) -> Finding:
    found = judged.record.seen(FindProducerOrder)
    return finding(exercised=found.logs, violations=found.first)


RULE = Clause(
    module=__name__,
    doc=__doc__,
    kip="KIP-98",
    check=_check,
    reads_timeline=False,
    parts=("replicas",),
    needed="never",
    unknown_when="`replicas/` is not as the run left it. Only with idempotent producers",
    example="""
        A record of producer epoch 0 stands behind one of epoch 1.
        setting: idempotent
        replicas: broker=1 offset=0 value=1 producer_id=7 producer_epoch=1 sequence=0;
          broker=1 offset=1 value=2 producer_id=7 producer_epoch=0 sequence=4
        gives: offset=1 producer_epoch=0 producer_epoch_before=1
    """,
)
