"""KIP-101: a leader appends each batch under its own leader epoch.

The epoch of an acked record in the replicas' logs is held against the time at which it was sent. A record that was
acked with acks=all must not have an epoch that was over by then (`analysis.judge.history.epochs_of_acks`).

Nothing is judged where no newer leader is known to have answered, or where it may have been absent from the old
leader's ISR, or where it was restarted afterwards. Where a log lost records or an election left ISR and ELR, the
clause is unknown: the copy of a deposed leader, which was never acked, may have become the record.
"""

from __future__ import annotations

from analysis.judge.history.epochs_of_acks import FindLateEpochs, late_records
from analysis.judge.rules.clause import Clause, Finding, Judged, finding
from analysis.judge.rules.lossy import why_lossy

_COPY = "a log lost records, or an election left ISR and ELR: a deposed leader's own copy may have become the record"


def _check(judged: Judged) -> Finding:
    record = judged.record
    found = record.seen(FindLateEpochs)
    late = [row for one in found.late for row in late_records(record, one)]
    doubt = "a clock was set" if record.unsure_spans else _COPY if late and why_lossy(record) is not None else None
    return finding(exercised=found.ended, violations=late, doubt=doubt)


RULE = Clause(
    kip="KIP-101",
    check=_check,
    parts=("sends", "watermarks", "replicas"),
    needed="never",
    compares_times=True,
    unknown_when=(
        "a record has an old epoch, and a clock was set, a log lost records or an election left ISR and ELR. Only "
        "where a newer leader answered, and was not restarted afterwards"
    ),
    example="""
        Broker 2 leads in epoch 1, and answers at 10 s. A record that is sent at 20 s and acked has epoch 0.
        partitions: leader=1; at=5 leader=2
        watermarks: broker=2 leader_epoch=1 high_watermark=0 at=10
        sends: at=20 value=1 offset=0
        replicas: broker=1 value=1 offset=0
        gives: offset=0 leader_epoch=0 newer_leader=2
    """,
)
