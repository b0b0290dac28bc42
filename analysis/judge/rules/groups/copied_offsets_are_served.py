"""KIP-98: the offsets that a copier sends in a transaction are committed with it.

At the end of the run its coordinator serves the offset behind the last input whose copy is surely committed, or a later
one (`analysis.judge.rules.groups.copied_offsets`). Only the last answer is judged, and only if its broker had led the
group's partition of __consumer_offsets for ten seconds: a new coordinator may serve an older offset for a while.
"""

from __future__ import annotations

from itertools import takewhile

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.judge.rules.groups.copied_offsets import FindCopiedOffsets
from analysis.judge.rules.lossy import why_lossy
from analysis.record.record import Record
from analysis.rows.policies import unsafe_property
from ebbtide.record.topic_lives import deletion_times
from ebbtide.scenario.internal_topics import OFFSETS_PARTITION, OFFSETS_TOPIC

_LED_NS = 10_000_000_000


def _check(judged: Judged) -> Finding:
    record = judged.record
    gone = {*deletion_times(record.proven_steps or ()), *record.manifest.gone_topics}
    cases = Cases()
    for (_, topic, _), one in record.seen(FindCopiedOffsets).items():
        if topic in gone or not _has_led(record, one.answer):
            continue
        served = one.answer["offset"]
        is_lost = not isinstance(served, int) or served < one.committed
        cases.add(one.answer | {"committed": one.committed} if is_lost else None)
    unsafe = unsafe_property(record)
    doubt = f"the scenario sets {unsafe}, so that offsets may be missing" if unsafe else why_lossy(record)
    return cases.finding(doubt)


def _has_led(record: Record, answer: Row) -> bool:
    """Return whether the broker that answered led the offsets' topic, for long enough."""
    states = reversed(record.timeline.states(OFFSETS_TOPIC, OFFSETS_PARTITION))
    led = list(takewhile(lambda state: state.leader == answer["broker"], states))
    asked_ns = answer["asked_ns"]
    return bool(led) and isinstance(asked_ns, int) and led[-1].at_ns + _LED_NS < asked_ns


RULE = Clause(
    kip="KIP-98",
    check=_check,
    parts=("sends", "copies", "commits"),
    needed="never",
    compares_times=True,
    unknown_when=(
        "an offset is missing, and a log lost records, an election left ISR and ELR, or brokers had a setting by "
        "which offsets are forgotten. Only with copiers whose offsets are in their transactions"
    ),
    example="""
        A copier copied offset 0 of topic t, and its next transaction went on at 22 s. Its group has no offset at 40 s.
        setting: copiers transactional
        partitions: topic=__consumer_offsets
        sends: topic=copies value=1 offset=0 txn=1 txn_outcome=committed at=21;
          topic=copies value=2 offset=2 txn=2 txn_outcome=committed at=22
        copies: topic=t offset=0 value=1; topic=t offset=1 value=2
        commits: topic=t status=served broker=1 at=40
        gives: committed=1
    """,
)
