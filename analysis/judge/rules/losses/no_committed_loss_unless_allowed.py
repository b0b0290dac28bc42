"""KIP-966, Motivation: a committed record survives min ISR - 1 unclean shutdowns.

Every committed loss needs an election that the protocol permits (the causes). The clause is
unknown without a final read, or where evidence is missing to attribute a loss. Vanished records
(`vanished`) were committed, whether or not a producer received an answer.
"""

from __future__ import annotations

from analysis.judge.history.sent import CountAckedSends
from analysis.judge.rules.clause import Clause, Finding, Judged, finding_on_causes
from analysis.judge.rules.losses import lost
from analysis.reconcile.model import LostRange, VanishedRange
from analysis.record.whole import OF_LOSSES


def _check(judged: Judged) -> Finding:
    committed = [one for one in judged.blamed_of(LostRange) if one.committed]
    unknown = judged.unknown.get(lost.RULE.name)
    acked = judged.found.counts.acked - judged.record.seen(CountAckedSends).by_acks.get(0, 0)
    return finding_on_causes([*committed, *judged.blamed_of(VanishedRange)], exercised=acked, kind_unknown=unknown)


RULE = Clause(
    kip="KIP-966",
    check=_check,
    reads_timeline=False,
    parts=OF_LOSSES,
    allowed="every committed loss is one that the specification allows on this release",
    unknown_when=(
        "there is no final read, it begins above an acked record, or a loss or a [missing "
        "record](causes.md#missing-but-not-lost) has no cause"
    ),
    example="""
        A record that was acked with acks=all is lost, and its leader never changed.
        sends: 0=1 1=2
        polls: final 0=1
        gives: topic=t partition=0 count=1
    """,
)
