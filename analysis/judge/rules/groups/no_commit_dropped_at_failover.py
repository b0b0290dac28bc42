"""A new coordinator serves each commit that it knew to be committed when it was elected.

A new coordinator may lag behind for a while, but only by the newest commits: what the coordinator before it had acked
shows up to where its HW must have been (`analysis.judge.history.commits_known`). Whether it has served a HW since then
does not matter. Nobody's fault is only what lies above.
"""

from __future__ import annotations

from analysis.judge.history.commits_known import FindDroppedCommits
from analysis.judge.rules.clause import Clause, Finding, Judged, finding
from analysis.rows.policies import unsafe_property


def _check(judged: Judged) -> Finding:
    found = judged.record.seen(FindDroppedCommits)
    unsafe = unsafe_property(judged.record)
    doubt = f"the scenario sets {unsafe}, so that offsets may be missing without a loss" if unsafe else None
    return finding(exercised=found.compared, violations=found.lacking, doubt=doubt)


RULE = Clause(
    kip="Kafka's promise",
    check=_check,
    applies=lambda judged: judged.record.has("commits"),
    parts=("commits",),
    needed="never",
    compares_times=True,
    unknown_when=(
        "a commit is missing, and brokers had a setting by which offsets may expire. Only where the new coordinator "
        "was in the ISR during the epoch of the old one, and was not restarted"
    ),
    example="""
        Broker 1 acks offsets 1, 2 and 3 of group g, one after the other. Broker 2 leads then, and serves nothing.
        partitions: leader=1; topic=__consumer_offsets at=1 partition_epoch=0;
          topic=__consumer_offsets at=40 leader=2 isr=2,3
        commits: status=acked commit=1 offset=1 at=30; status=acked commit=2 offset=2 at=31;
          status=acked commit=3 offset=3 at=32; status=served broker=2 at=41
        gives: broker=2 leader_epoch=1 served=-
    """,
)
