"""KIP-595: the active controller answers once its record is committed, so what a leader applied is in the metadata log.

A leader asks the controller for each change of its ISR, and logs the ISR and the partition epoch that the controller
answered with. Each such line is held against the final metadata log. An answer that came before the record was
committed may be undone by the next controller, and the leader counts on an ISR that never was.

Where controllers lost a log, a committed record may be missing from the final log, and the clause is unknown.
"""

from __future__ import annotations

from analysis.judge.history.log_lines import applied_isrs
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.record.record import Record


def _check(judged: Judged) -> Finding:
    record = judged.record
    partitions = record.timeline.partitions
    states = {
        (f"{topic}-{partition}", state.partition_epoch): state
        for (topic, partition), of_partition in partitions.items()
        if topic not in record.timeline.reused_names
        for state in of_partition
    }
    names = {name for name, _ in states}
    cases = Cases()
    for broker in record.manifest.topology.brokers:
        for one in applied_isrs(record, broker):
            if one.partition in names:
                state = states.get((one.partition, one.partition_epoch))
                row = {"partition": one.partition, "broker": broker, "at_ns": one.at_ns, "isr": sorted(one.isr)}
                committed = None if state is None else sorted(state.isr)
                row |= {"partition_epoch": one.partition_epoch, "committed_isr": committed}
                cases.add(row if state is None or {*state.isr} != {*one.isr} else None)
    return cases.finding(_doubt(record))


def _doubt(record: Record) -> str | None:
    """Return why the final metadata log may lack what was committed; None: it cannot."""
    if record.timeline.torn or record.timeline.gaps or record.ends_early:
        return "the metadata log is not whole"
    return record.why_metadata_may_be_undone


RULE = Clause(
    kip="KIP-595",
    check=_check,
    needed="never",
    unknown_when=(
        "an ISR is not in the metadata log, and that log is not whole or a controller lost its log. Only where the "
        "logs of brokers are there"
    ),
    example="""
        Broker 1 logs that the controller shrank its ISR to 1, 2. The metadata log has another ISR in that place.
        partitions: leader=1; at=20 isr=1,3
        logs: node=broker-1 at=19 says=[Partition_t-0_broker=1]_ISR_updated_to_1,2__and_version_updated_to_1
        gives: partition=t-0 isr=1,2 committed_isr=1,3
    """,
)
