"""KIP-966: a leader takes a record with acks=all only while the ISR has at least min ISR members.

A leader refuses such a record before it appends it, so the record must be in no log. What clients sent while the ISR
was below min ISR, and the leader surely knew, is held against the replicas' logs (`appends_below`),
whatever the leader answered.
"""

from __future__ import annotations

from analysis.judge.history.appends_below import FindAppendsBelow
from analysis.judge.rules.clause import Clause, Finding, Judged, finding, unknown_finding


def _check(judged: Judged) -> Finding:
    record, found = judged.record, judged.record.seen(FindAppendsBelow)
    if found.exercised and record.split_steps is None:
        return unknown_finding("steps.jsonl is missing: whether a leader knew that it was below min ISR is not known")
    doubt = record.why_metadata_may_be_undone
    return finding(exercised=found.exercised, violations=found.first, cases=found.appended, doubt=doubt)


RULE = Clause(
    kip="KIP-966",
    check=_check,
    parts=("sends", "watermarks", "replicas"),
    needed="never",
    compares_times=True,
    unknown_when=(
        "`steps.jsonl` is missing, or a record was appended and a controller lost its log. Only where a record with "
        "acks=all was sent while the leader [surely knew](#the-frozen-hw) that the ISR was below min ISR"
    ),
    example="""
        Broker 1 leads alone from 5 s on, and min ISR is 2. A record with acks=all is sent at 20 s, and acked.
        partitions: leader=1; at=5 isr=1
        sends: 0=1 at=20
        replicas: broker=1 offset=0 value=1
        gives: offset=0 min_isr=2 isr=1
    """,
)
