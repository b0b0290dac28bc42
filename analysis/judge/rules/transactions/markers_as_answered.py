"""KIP-98: a transaction confirmed as committed ends with COMMIT markers, and an aborted one with ABORT markers.

What the coordinator answered is held against the markers in the partitions' logs. The marker of a transaction is the
next one of its producer id behind its last acked record.

Before transaction.version 2 a late EndTxn may commit the next transaction, which its producer aborts (KAFKA-17754), and
a late record may be committed with it (KAFKA-14402). Both are judged by what consumers read. So a COMMIT marker of an
aborted transaction counts only if it has a later epoch than the records, and nothing counts where a step held an
EndTxn. A marker that a log lost may be followed by that of the next transaction: where a log lost records, the clause
is unknown.
"""

from __future__ import annotations

from analysis.judge.history.evidence import Row
from analysis.judge.history.markers import LastOfTransactions, Marker, Outcome, markers_of
from analysis.judge.rules.clause import Clause, Finding, Judged, finding, unknown_finding
from analysis.judge.rules.lossy import why_lossy
from analysis.record.record import Record
from analysis.record.whole import is_raw_whole
from ebbtide.record.files import RAW_DIR

_END_TXN = "EndTxn"
"""The request by which a producer ends its transaction."""


def _check(judged: Judged) -> Finding:
    record = judged.record
    ends = record.seen(LastOfTransactions)
    if not ends:
        return Finding(status="not-exercised")
    if not is_raw_whole(record):
        return unknown_finding(f"{RAW_DIR}/ is not as the run left it")
    markers = markers_of(record, ends)
    if not markers:
        return unknown_finding(f"{RAW_DIR}/ has no marker of a transaction whose outcome is known")
    wrong: list[Row] = []
    for (at, offset), marker in markers.items():
        ended = ends[at][offset]
        if _is_wrong(ended.outcome, marker):
            row: Row = {"topic": at.topic, "partition": at.partition, "offset": offset, "txn": ended.txn}
            wrong.append(row | {"answered": ended.outcome, "marker": marker.says, "marker_offset": marker.offset})
    doubt = (why_lossy(record) or _why_late(record)) if wrong else None
    return finding(exercised=len(markers), violations=wrong, doubt=doubt)


def _why_late(record: Record) -> str | None:
    """Return why an EndTxn may have come late, and ended another transaction; None: no step held one."""
    held = [step for step in record.split_steps or () if step.asked.api == _END_TXN]
    return f"step {held[0].index} held an EndTxn, which may have ended another transaction" if held else None


def _is_wrong(outcome: Outcome, marker: Marker) -> bool:
    if outcome == "committed":
        return marker.says == "ABORT"
    return marker.says == "COMMIT" and marker.epoch > marker.epoch_of_records


RULE = Clause(
    kip="KIP-98",
    check=_check,
    scans=(LastOfTransactions,),
    applies=lambda judged: any(one.transactional for one in judged.record.manifest.producers.values()),
    reads_timeline=False,
    parts=("sends",),
    needed="never",
    unknown_when=(
        "`raw/` is not as the run left it, or has no such marker; or a marker is wrong, and a log lost records, an "
        "election left ISR and ELR or a step held an EndTxn. Only with transactional producers"
    ),
    example="""
        The coordinator confirmed a commit. The marker behind its record says ABORT.
        setting: transactional marker=abort,0
        sends: offset=0 value=1 txn=1 txn_outcome=committed
        polls: final 0=1 1=-
        gives: offset=0 answered=committed marker=ABORT
    """,
)
