"""KIP-903, Controller: an ISR join carries the broker's latest epoch.

"all the broker epochs in the ISR match with the latest broker epochs before persisting this
change."

The epoch that an AlterPartition carried is in no metadata record. A join is fresh under a
leader epoch that began after the broker had registered: the leader knows only fetches of its
own epoch, and the controller refuses requests of an older one. Any other join is proven stale
only by a record that the broker then lacks (`stale_joins`, from the causes); else it is
unknown. Before metadata.version 3.5-IV1 the clause is not in force.
"""

from __future__ import annotations

from analysis.judge.history.evidence import AnyAnomaly, Row
from analysis.judge.rules.clause import Clause, Finding, Judged, cause_row, finding, state_row, unknown_finding
from analysis.reconcile.model import LostRange, VanishedRange
from analysis.record.whole import OF_LOSSES


def _check(judged: Judged) -> Finding:
    record, timeline = judged.record, judged.record.timeline
    if "brokers" in timeline.missing:
        return unknown_finding("brokers.parquet is missing")
    # These show a stale join: the broker lacked a record that the leader had when it joined the ISR.
    lost: list[AnyAnomaly] = [*judged.blamed_of(LostRange), *judged.blamed_of(VanishedRange)]
    stale_joins = [cause_row(one) for one in lost if one.attribution.breaks_kip_903]
    fresh = 0
    undecided: list[Row] = []
    for before, after in timeline.pairs():
        for broker in sorted(set(after.isr) - set(before.isr) - {after.leader}):
            registered = [
                event.metadata_offset
                for event in timeline.brokers
                if event.broker == broker
                and event.event == "registered"
                and event.metadata_offset < after.metadata_offset
            ]
            if len(registered) < 2 or record.protocol.has_kip_903(after.metadata_offset) is False:
                continue
            states = timeline.states(after.topic, after.partition)
            epoch_began = next(one.metadata_offset for one in states if one.leader_epoch == after.leader_epoch)
            if epoch_began > registered[-1]:
                fresh += 1
            else:
                why = "the broker epoch of the AlterPartition is not in the evidence"
                undecided.append(state_row(after, broker=broker, why=why))
    return finding(exercised=fresh, violations=stale_joins, unknown=undecided)


RULE = Clause(
    kip="KIP-903",
    check=_check,
    parts=OF_LOSSES,
    needed="never",
    unknown_when=(
        "a broker joined under a leader epoch older than its registration: the broker epoch that the "
        "AlterPartition carried is in no metadata record"
    ),
    example="""
        Broker 2 registers again, and joins the ISR under a leader epoch that began before.
        partitions: leader=1; at=2 isr=1,3; at=8 isr=1,2,3
        brokers: at=5 broker=2
        unknown: broker=2
    """,
)
