"""Makes the evidence of one partition from a run record."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from analysis.causes.columns import PartitionTables
from analysis.causes.evidence import (
    NEVER,
    SLACK_NS,
    ClusterEvidence,
    DiskLoss,
    Down,
    InForce,
    MeasuredEnds,
    PartitionEvidence,
    Silence,
    UncleanRequest,
)
from analysis.causes.partition import EvidentPartition
from analysis.record.record import Record
from analysis.record.requests import Request
from ebbtide.record.node_times import Span
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.step import LinkProof
from ebbtide.scenario.steps.table import KINDS

_UNMEASURED_NS = 1_000_000_000
"""How long a step may have taken that nobody measured."""


class EvidentRecord:
    """A record with what its partitions say of causes; each partition is read once."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._partitions: dict[tuple[str, int], EvidentPartition] = {}

    @cached_property
    def _cluster(self) -> ClusterEvidence:
        return cluster_evidence(self.record)

    def partition(self, topic: str, partition: int) -> EvidentPartition:
        """Return all that the record says of a partition. Raises `UsageError` when a table is damaged."""
        key = (topic, partition)
        if key not in self._partitions:
            evidence = partition_evidence(self.record, topic, partition, self._cluster)
            self._partitions[key] = EvidentPartition(evidence)
        return self._partitions[key]


def cluster_evidence(record: Record) -> ClusterEvidence:
    """Return what all partitions of a record share."""
    steps, timeline, report = record.proven_steps, record.timeline, record.reports.timeline
    return ClusterEvidence(
        broker_events=None if "brokers" in timeline.missing else timeline.brokers,
        downs=tuple(downs_of(steps or ())),
        silences=tuple(silences_of(steps or ())),
        steps_known=steps is not None,
        log_whole=not timeline.gaps,
        # A record that could not be read may have been the last one.
        log_torn=timeline.torn or (report is not None and bool(report.skipped)),
        # Where a time is not sure, the clocks may differ by the whole span.
        slack_ns=SLACK_NS + max((last - first for first, last in record.unsure_spans), default=0),
    )


def partition_evidence(record: Record, topic: str, partition: int, cluster: ClusterEvidence) -> PartitionEvidence:
    """Return the evidence of a partition. Raises `UsageError` when a table is damaged."""
    states = _last_life(record.timeline.states(topic, partition))
    rules, disks = tuple(_rules(record, topic, states)), tuple(_disks(record, topic, partition, states))
    requests = tuple(unclean_requests_of(record.requests or (), f"{topic}-{partition}"))
    tables = PartitionTables(record, topic, partition)
    polls, final = tables.polls()
    return PartitionEvidence(
        topic=topic,
        partition=partition,
        cluster=cluster,
        states=states,
        rules=rules,
        disks=disks,
        requests=requests,
        sends=tables.sends(),
        polls=polls,
        final=final,
        replicas=tables.replicas(),
        watermarks=tables.watermarks(),
    )


def _last_life(states: Sequence[PartitionState]) -> tuple[PartitionState, ...]:
    """Return the states since the topic was created last."""
    begins = [at for at in range(1, len(states)) if states[at].follows_recreation(states[at - 1])]
    return tuple(states[begins[-1] if begins else 0 :])


def _rules(record: Record, topic: str, states: Sequence[PartitionState]) -> Iterator[InForce]:
    """Yield the rules before each state and at each change: of a config, of a feature level, or of the software."""
    if not states:
        yield InForce()
        return
    rules, unrecorded = record.protocol, _unrecorded_changes(record)
    changed = {state.metadata_offset - 1: state.at_ns for state in states}
    changed |= {change.metadata_offset: change.at_ns for change in record.timeline.configs}
    offsets = [state.metadata_offset for state in states]
    for at, at_ns in sorted(changed.items()):
        state = states[max(0, bisect_right(offsets, at) - 1)]
        yield InForce(
            metadata_offset=at,
            at_ns=at_ns,
            elr=None if "set-feature" in unrecorded else rules.is_elr_on(at),
            kip_903=None if "set-feature" in unrecorded else rules.has_kip_903(at),
            unclean=rules.elects_uncleanly(topic, at, record.statics),
            min_isr=None if "set-config" in unrecorded else rules.min_isr(state, at),
        )


def _unrecorded_changes(record: Record) -> frozenset[str]:
    """Return the kinds of steps that may have changed a rule, where the table of configs is missing."""
    kinds = frozenset({"set-config", "set-feature"})
    if "configs" not in record.timeline.missing:
        return frozenset()
    return kinds if record.proven_steps is None else kinds & {step.step for step in record.proven_steps}


def downs_of(steps: Sequence[StepEntry]) -> Iterator[Down]:
    """Yield the ends of brokers' processes that steps proved."""
    for place, step in enumerate(steps):
        for node in step.nodes:
            kind, times, fired_ns = KINDS.get(step.step), step.times_of(node), step.fired_ns
            is_proven = step.effect_ns is not None
            if kind is None or fired_ns is None or not is_proven or not (times.ended or kind.takes_down):
                continue
            ended = times.ended or Span(first_ns=fired_ns, last_ns=fired_ns + _UNMEASURED_NS)
            started = times.started if times.ended else None
            started_ns = started.first_ns if started else _start_after(steps[place + 1 :], node, ended.first_ns)
            yield Down(broker=node, ended=ended, started_ns=started_ns)


def _start_after(later: Sequence[StepEntry], node: int, ended_ns: int) -> int:
    """Return when a later step began to start the node; `NEVER`: none did."""
    for step in later:
        kind = KINDS.get(step.step)
        starts = kind is not None and (kind.starts or kind.starts_again or kind.may_leave_down)
        if starts and node in step.nodes and step.fired_ns is not None:
            started = step.times_of(node).started
            started_ns = started.first_ns if started else step.fired_ns
            # A step over several nodes may end this process after another step had started the one before.
            if started_ns >= ended_ns:
                return started_ns
    return NEVER


def silences_of(steps: Sequence[StepEntry]) -> Iterator[Silence]:
    """Yield the cuts and pauses that a step proved; a cut in one direction lets no answer pass."""
    for step in steps:
        kind, until_ns = KINDS.get(step.step), NEVER if step.healed_ns is None else step.healed_ns
        if kind is None or step.effect_ns is None:
            continue
        cuts = step.figures(LinkProof).cuts
        if cuts is not None:
            links = frozenset((min(link), max(link)) for link in cuts.pairs)
            yield Silence(from_ns=step.effect_ns, until_ns=until_ns, links=links)
        elif kind.pauses:
            yield Silence(from_ns=step.effect_ns, until_ns=until_ns, brokers=frozenset(step.nodes))


def _disks(record: Record, topic: str, partition: int, states: Sequence[PartitionState]) -> Iterator[DiskLoss]:
    name, replicas = f"{topic}-{partition}", {broker for state in states for broker in (*state.replicas, *state.isr)}
    for loss in record.log_losses or ():
        before, after, ends = loss.starts.get(name), loss.ends.get(name), None
        if after is None and not loss.costs(topic, partition):
            continue
        if after is not None or loss.wiped:
            ends = MeasuredEnds(NEVER if before is None or after is None else before, after or 0)
        last_ns = loss.done_ns if loss.done_ns > loss.fired_ns else loss.fired_ns + _UNMEASURED_NS
        if loss.broker in replicas:
            within = loss.gone or Span(first_ns=loss.fired_ns, last_ns=last_ns)
            yield DiskLoss(broker=loss.broker, within=within, ends=ends)


def unclean_requests_of(requests: Iterable[Request], name: str) -> Iterator[UncleanRequest]:
    """Yield the requests that may have asked for an unclean election of a partition."""
    for one in requests:
        if one.asks_for("unclean") and one.partition in (None, name):
            answered_ns = NEVER if one.answered_ns is None else one.answered_ns
            yield UncleanRequest(
                asked_ns=one.fired_ns,
                answered_ns=answered_ns,
                elected_at=one.elected_at if one.partition == name else None,
                is_recovery=one.kind == "recover",
            )
