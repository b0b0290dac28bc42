"""KIP-101: a follower truncates its log where the leader epochs part, so it keeps what is committed.

A follower that truncates to its HW, which lags, takes committed records from its log. It fetches them again, so that
nothing is lost until the leader fails. The lines of each broker's log say to which offset it truncated, and are held
against what had been acked by then (`analysis.judge.history.cut_records`).
"""

from __future__ import annotations

from analysis.judge.history.cut_records import FindCutRecords
from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding
from analysis.judge.rules.lossy import elections_from_a_wrong_elr
from analysis.record.clock_steps import CLOCKS_AGREE_NS
from analysis.record.elections import ElectionEvent


def _check(judged: Judged) -> Finding:
    cuts, doubt = judged.record.seen(FindCutRecords), judged.record.why_metadata_may_be_undone
    elections = elections_from_a_wrong_elr(judged) if cuts.found else []
    found = [(row, count) for row, count in cuts.found if not any(_explains(one, row) for one in elections)]
    rows, cases = [row for row, _ in found], sum(count for _, count in found)
    return finding(exercised=cuts.truncations, violations=rows, cases=cases, doubt=doubt)


def _explains(election: ElectionEvent, cut: Row) -> bool:
    """Whether a record may have been cut off because that leader lacked it: sent before its election, cut after it."""
    after, sent_ns, cut_ns = election.after, int(str(cut["sent_ns"])), int(str(cut["truncated_ns"]))
    is_between = sent_ns - CLOCKS_AGREE_NS <= after.at_ns <= cut_ns + CLOCKS_AGREE_NS
    return is_between and (after.topic, after.partition) == (cut["topic"], cut["partition"])


RULE = Clause(
    kip="KIP-101",
    check=_check,
    parts=("sends",),
    needed="never",
    compares_times=True,
    unknown_when=(
        "`sends/` is not as the run left it, or a record was cut off and a controller lost its log. Only where the "
        "logs of brokers are there and say that one truncated, not with several log directories or a topic that was "
        "made again"
    ),
    example="""
        A record is acked at 20 s, with all replicas in the ISR. Broker 2 truncates its log to offset 0 at 40 s.
        partitions: leader=1; at=30 leader=3 isr=2,3
        sends: 0=1 at=20
        logs: node=broker-2 at=40 says=[UnifiedLog_partition=t-0,_dir=/kafka]_Truncating_to_offset_0
        gives: offset=0 broker=2 truncated_to=0
    """,
)
