"""KIP-966: where no replica leads, the controller elects a member of the ISR or the ELR that is unfenced.

"The replica gets unfenced. If the replica is an ELR member and ISR is empty, this replica will be elected as leader."
Judged at the end of a run, once each fault is healed. A session is allowed, though the controller does it at once.
A broker leads only if the partition names one of its online log directories (KIP-858), which no table has.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.causes.evidence import NEVER
from analysis.judge.history.steps import nodes_with_changed_directories
from analysis.judge.rules.clause import Clause, state_row
from analysis.judge.rules.duties.duty import (
    SECOND_NS,
    Duty,
    finds_duties,
    healed_ns,
    lasting_partitions,
    unfenced_since,
)
from analysis.record.record import Record


@finds_duties
def _check(record: Record) -> Iterator[Duty]:
    healed, changed = healed_ns(record), nodes_with_changed_directories(record)
    if healed is None:
        return
    for states in lasting_partitions(record).values():
        last = states[-1]
        members = last.isr or (last.elr if record.protocol.is_elr_on(NEVER) else ())
        unfenced = [(one in changed, at, one) for one in members if (at := unfenced_since(record, one)) is not None]
        if not unfenced:
            continue
        is_changed, first_ns, broker = min(unfenced)
        since_ns = max(healed, first_ns, last.at_ns)
        yield Duty(
            about=state_row(last, broker=broker),
            since_ns=since_ns,
            within_ns=int(record.session_timeout_s * SECOND_NS),
            kept_ns=since_ns if last.leader >= 0 else None,
            doubt="a step changed a log directory of the broker" if is_changed else None,
        )


RULE = Clause(
    kip="KIP-966",
    check=_check,
    needed="never",
    compares_times=True,
    unknown_when="no replica leads at the end, and the run ended soon, a controller may not have been alive, or a step "
    "changed a log directory of the replica",
    example="""
        Nobody leads from 5 s on. Broker 2 is in the ISR, and is unfenced.
        partitions: leader=1; at=5 leader=-1 isr=2
        clock: from=0 to=50
        gives: broker=2 leader=-1
    """,
)
