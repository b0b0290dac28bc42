"""KIP-497: the controller refuses a change of an ISR that is based on an older state than the one in force.

A leader says in AlterPartition on which partition epoch and leader epoch its ISR is based, and its own broker epoch.
Where a step stopped or copied the request, its epochs are recorded, and the code of the answer. They are held against
the metadata log: it had a newer epoch before the request went on. Or against the answer to the same request, which had
arrived right before, and had raised the partition epoch.
"""

from __future__ import annotations

from collections.abc import Mapping

from analysis.judge.history.evidence import Row
from analysis.judge.history.isr_requests import IsrRequest, isr_requests
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.findings import Finding, finding
from analysis.judge.rules.judged import Judged
from analysis.record.clock_steps import CLOCKS_AGREE_NS
from analysis.record.record import Record


def _check(judged: Judged) -> Finding:
    record = judged.record
    exercised = 0
    violations: list[Row] = []
    for request in isr_requests(record):
        asked = request.asked
        epochs = {
            "partition_epoch": asked.partition_epoch,
            "leader_epoch": asked.leader_epoch,
            "broker_epoch": asked.broker_epoch,
        }
        newer = {name: one for name, one in _in_force(record, request).items() if one > epochs[name]}
        if newer:
            exercised += 1
            if request.error == 0:
                row: Row = {**request.at._asdict(), "broker": asked.broker, **epochs, "sent_ns": request.sent_ns}
                violations.append(row | {"in_force": newer})
    return finding(exercised=exercised, violations=violations, doubt=record.why_metadata_may_be_undone)


def _in_force(record: Record, request: IsrRequest) -> Mapping[str, int]:
    """Return the epochs that were in force for sure when a request arrived."""
    by_ns = request.sent_ns - CLOCKS_AGREE_NS
    states = [one for one in record.timeline.states(*request.at) if one.at_ns < by_ns]
    registered = [
        one.broker_epoch
        for one in record.timeline.brokers
        if one.broker == request.asked.broker and one.event == "registered" and one.at_ns < by_ns
    ]
    partition_epochs = [one.partition_epoch for one in states]
    if request.copied_epoch is not None:
        partition_epochs.append(request.copied_epoch)
    found = {
        "partition_epoch": partition_epochs,
        "leader_epoch": [one.leader_epoch for one in states],
        "broker_epoch": registered,
    }
    return {name: max(epochs) for name, epochs in found.items() if epochs}


RULE = Clause(
    kip="KIP-497",
    check=_check,
    applies=lambda judged: bool(isr_requests(judged.record)),
    needed="never",
    compares_times=True,
    unknown_when=(
        "a stale request was carried out, and a controller lost its log. Only where a step held, delayed or "
        "duplicated AlterPartition requests"
    ),
    example="""
        Leader 1 asks for a new ISR. Its request arrives twice, and the controller carries out both.
        partitions: leader=1; at=30 isr=1,2
        requests: event=duplicated at=29 epoch=0; event=answered at=29.1 error=0 epoch=1;
          event=discarded at=29.2 error=0 epoch=1
        gives: broker=1 partition_epoch=0
    """,
)
