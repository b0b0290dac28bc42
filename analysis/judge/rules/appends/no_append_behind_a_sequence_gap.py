"""KIP-98: a leader appends no batch of an idempotent producer whose sequence leaves a gap behind the last one.

It answers OUT_OF_ORDER_SEQUENCE_NUMBER, so that a record that got lost on its way is sent again before later ones. In
each log the sequences of a producer id and epoch follow each other (`analysis.judge.history.producer_order`).
"""

from __future__ import annotations

from analysis.judge.history.producer_order import FindProducerOrder
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.findings import Finding, finding
from analysis.judge.rules.judged import Judged


def _check(judged: Judged) -> Finding:
    found = judged.record.seen(FindProducerOrder)
    return finding(exercised=found.logs, violations=found.after_gaps)


RULE = Clause(
    module=__name__,
    doc=__doc__,
    kip="KIP-98",
    check=_check,
    applies=lambda judged: any(
        one.idempotent or one.transactional for one in judged.record.manifest.producers.values()
    ),
    reads_timeline=False,
    parts=("replicas",),
    needed="never",
    unknown_when="`replicas/` is not as the run left it. Only with idempotent producers",
    example="""
        A record of sequence 7 stands behind one of sequence 4, and no offset is missing between them.
        setting: idempotent
        replicas: broker=1 offset=0 value=1 producer_id=7 producer_epoch=0 sequence=4;
          broker=1 offset=1 value=2 producer_id=7 producer_epoch=0 sequence=7
        gives: offset=1 sequence=7 sequence_before=4
    """,
)
