"""KIP-966, DescribeTopicPartitions: brokers answer with the log's ELR.

The same holds for the last known ELR. Each answer equals a state that the log had by then, and
no broker goes back. In releases from 3.8 on.
"""

from __future__ import annotations

from analysis.judge.history.answers import CompareAnswers
from analysis.judge.rules.clause import Clause, Finding, Judged, finding, unknown_finding
from ebbtide.releases import first_with


def _check(judged: Judged) -> Finding:
    record, compared = judged.record, judged.record.seen(CompareAnswers)
    release = record.protocol.newest_release
    if release is not None and release < first_with.DESCRIBE_TOPIC_PARTITIONS:
        return Finding(status="not-exercised")
    if compared is None or not compared.facts["described-answers"]:
        return unknown_finding("there are no answers to compare (described)")
    timeline = record.timeline
    if compared.differing and (timeline.torn or timeline.gaps or "brokers" in timeline.missing):
        why = "the metadata timeline may lack states, or registrations of brokers"
        return finding(exercised=1, violations=(), unknown=[{**row, "why": why} for row in compared.mismatches])
    answers = compared.facts["described-answers"]
    return finding(exercised=answers, violations=compared.mismatches, unknown=compared.unread, cases=compared.differing)


RULE = Clause(
    kip="KIP-966",
    check=_check,
    parts=("described",),
    needed="never",
    compares_times=True,
    unknown_when=(
        "there is no `described/`, or an answer fits no state and the timeline may lack states. Brokers "
        "before 3.8 are not asked"
    ),
    example="""
        Broker 1 answers that brokers 1 and 2 are the ISR. The metadata log never says so.
        described: isr=1,2
        gives: broker=1 isr=1,2
    """,
)
