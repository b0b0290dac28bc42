"""KIP-98, read_committed: no consumer gets a message of an aborted transaction.

Nor does a consumer get a message that was not appended.
The values of sends that certainly failed must not come back at either isolation level. If a log lost
records, perhaps it lost the marker that aborted a transaction. The marker of the next one covers its
records then, so such reads are unknown.
"""

from __future__ import annotations

from analysis.judge.rules.clause import Clause, Finding, Judged, client_row, finding, unknown_rows
from analysis.judge.rules.lossy import why_lossy
from analysis.judge.rules.reads import aborted_read
from analysis.reconcile.model import AbortedReads
from analysis.record.whole import OF_LOSSES


def _check(judged: Judged) -> Finding:
    transactional = sum(producer.transactional for producer in judged.record.manifest.producers.values())
    exercised = transactional + judged.found.counts.failed
    lossy = why_lossy(judged.record)
    found = judged.found.groups_of(AbortedReads)
    rows = [client_row(one) for one in found]
    return finding(
        exercised=exercised,
        violations=rows,
        unknown=unknown_rows(aborted_read.RULE.name, exercised, judged.unknown),
        cases=sum(one.count for one in found),
        doubt=lossy,
    )


RULE = Clause(
    kip="KIP-98",
    check=_check,
    reads_timeline=False,
    parts=OF_LOSSES,
    unknown_when=(
        "the kind aborted-read is unknown. Exercised by transactional producers and by sends that failed for certain"
    ),
    example="""
        The send of value 1 failed, and a consumer got it all the same.
        sends: value=1 status=failed
        polls: 0=1
        gives: offset=0 value=1
    """,
)
