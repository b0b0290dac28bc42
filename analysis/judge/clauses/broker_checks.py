"""Checks brokers that return: unclean shutdowns, and joins with an old epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.judge.clauses.findings import NOT_IN_EVIDENCE, Finding, Row, finding, state_row, unknown_finding
from analysis.judge.history.evidence import Evidence
from ebbtide.record.log_losses import UNCLEAN_STEPS
from ebbtide.record.rows import BrokerEvent
from ebbtide.record.steps import StepEntry
from ebbtide.record.topic_lives import deletion_times
from ebbtide.scenario.steps.process import StopStep


def unclean_registrations(steps: Sequence[StepEntry], brokers: Sequence[BrokerEvent]) -> Iterator[BrokerEvent]:
    """Yield the registrations with which a broker returned from an unclean shutdown.

    No metadata record says so: it follows from the steps. A registration counts if the last step
    that took the broker down was a proven kill or power loss while it ran. It does not count if a
    step had stopped the broker cleanly before. A second registration of the running process (same
    incarnation) is not a return.
    """
    for event, since in _returns(steps, brokers):
        if since[0].step in UNCLEAN_STEPS and since[0].effect_ns is not None:
            yield event


def returns_from_a_stop(
    steps: Sequence[StepEntry], brokers: Sequence[BrokerEvent]
) -> Iterator[tuple[BrokerEvent, StepEntry]]:
    """Yield the registrations with which a broker returned from a proven clean stop, and that stop.

    No other step touched the broker's process or disk in between.
    """
    for event, since in _returns(steps, brokers):
        if len(since) == 1 and since[0].step == "stop" and since[0].effect_ns is not None:
            yield event, since[0]


def _returns(
    steps: Sequence[StepEntry], brokers: Sequence[BrokerEvent]
) -> Iterator[tuple[BrokerEvent, list[StepEntry]]]:
    """Yield the registrations of new processes after steps that took the broker down, with these steps."""
    for at, event in enumerate(brokers):
        if event.event != "registered":
            continue
        earlier = [one for one in brokers[:at] if one.broker == event.broker and one.event == "registered"]
        if not earlier or (event.incarnation is not None and earlier[-1].incarnation == event.incarnation):
            continue
        since = [
            step
            for step in steps
            if event.broker in step.nodes
            and step.fired_ns is not None
            and earlier[-1].at_ns <= step.fired_ns < event.at_ns
            and (step.step in UNCLEAN_STEPS or step.is_a(StopStep))
        ]
        if since:
            yield event, since


def unclean_broker_leaves_isr_and_elr(evidence: Evidence, steps: Sequence[StepEntry] | None) -> Finding:
    """KIP-966, Controller behaviors 4: unclean brokers leave ISR and ELR.

    At registration after an unclean shutdown, "the controller will remove the broker from ISR and
    ELR before persisting the registration record." Checked on the states in force at the
    registration record, where ELR is on.
    """
    timeline = evidence.timeline
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
    for event in unclean_registrations(steps, timeline.brokers):
        elr = evidence.rules.is_elr_on(event.metadata_offset)
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


def no_join_with_an_old_broker_epoch(evidence: Evidence, stale_joins: Sequence[Row]) -> Finding:
    """KIP-903, Controller: an ISR join carries the broker's latest epoch.

    "all the broker epochs in the ISR match with the latest broker epochs before persisting this
    change."

    The epoch that an AlterPartition carried is in no metadata record. A join is fresh under a
    leader epoch that began after the broker had registered: the leader knows only fetches of its
    own epoch, and the controller refuses requests of an older one. Any other join is proven stale
    only by a record that the broker then lacks (`stale_joins`, from the causes); else it is
    unknown. Before metadata.version 3.5-IV1 the clause is not in force.
    """
    timeline = evidence.timeline
    if "brokers" in timeline.missing:
        return unknown_finding("brokers.parquet is missing")
    fresh = 0
    undecided: list[Row] = []
    for before, after in timeline.pairs():
        for broker in sorted(set(after.isr) - set(before.isr) - {after.leader}):
            registered = [
                event.metadata_offset
                for event in timeline.brokers
                if event.broker == broker
                and event.event == "registered"
                and event.metadata_offset < after.metadata_offset
            ]
            if len(registered) < 2 or evidence.rules.has_kip_903(after.metadata_offset) is False:
                continue
            states = timeline.states(after.topic, after.partition)
            epoch_began = next(one.metadata_offset for one in states if one.leader_epoch == after.leader_epoch)
            if epoch_began > registered[-1]:
                fresh += 1
            else:
                why = "the broker epoch of the AlterPartition is not in the evidence"
                undecided.append(state_row(after, broker=broker, why=why))
    return finding(exercised=fresh, violations=list(stale_joins), unknown=undecided)
