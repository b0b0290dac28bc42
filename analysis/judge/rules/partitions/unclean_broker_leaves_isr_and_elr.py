"""KIP-966, Controller behaviors 4: unclean brokers leave ISR and ELR.

At registration after an unclean shutdown, "the controller will remove the broker from ISR and
ELR before persisting the registration record." A broker whose disk was replaced after a clean stop
is one of them. Checked on the states in force at the registration record, where ELR is on.
"""

from __future__ import annotations

from analysis.judge.history.evidence import Row
from analysis.judge.history.steps import returns_with_a_replaced_disk, unclean_registrations
from analysis.judge.rules.clause import NOT_IN_EVIDENCE, Clause, Finding, Judged, finding, state_row, unknown_finding
from ebbtide.record.log_losses import UNCLEAN_STEPS
from ebbtide.record.topic_lives import deletion_times


def _check(judged: Judged) -> Finding:
    record, steps, timeline = judged.record, judged.record.split_steps, judged.record.timeline
    if steps is None:
        return unknown_finding("steps.jsonl is missing, so which shutdowns were unclean is not known")
    if "brokers" in timeline.missing:
        return (
            unknown_finding("brokers.parquet is missing")
            if any(s.step in UNCLEAN_STEPS for s in steps)
            else Finding(status="not-exercised")
        )
    checked = 0
    violations: list[Row] = []
    undecided: list[Row] = []
    deleted = deletion_times(steps)
    returns = (unclean_registrations, returns_with_a_replaced_disk)
    for event in (event for find in returns for event in find(steps, timeline.brokers)):
        elr = record.protocol.is_elr_on(event.metadata_offset)
        if elr is False:
            continue
        for topic, partition in timeline.partitions:
            state = timeline.state_at(topic, partition, event.metadata_offset)
            if state is None or event.broker not in state.replicas or deleted.get(topic, event.at_ns) < event.at_ns:
                continue
            checked += 1
            row = state_row(state, broker=event.broker, registered_at=event.metadata_offset)
            if elr is None:
                undecided.append({**row, "why": "whether ELR was on is not known"})
            elif event.broker in {*state.isr, *state.elr}:
                following = timeline.state_after(state)
                if timeline.torn if following is None else following.lacks_record_since(state):
                    undecided.append({**row, "why": NOT_IN_EVIDENCE})
                else:
                    violations.append(row)
    return finding(exercised=checked, violations=violations, unknown=undecided)


RULE = Clause(
    kip="KIP-966",
    check=_check,
    compares_times=True,
    unknown_when="`steps.jsonl` is missing: no metadata record says that a shutdown was unclean",
    example="""
        Broker 2 was killed. It registers again and stays in the ISR.
        steps: step=kill nodes=2 at=5
        brokers: at=8 broker=2
        gives: broker=2 isr=1,2,3
    """,
)
