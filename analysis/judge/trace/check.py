"""Checks a timeline: finds the action and the actor behind each transition.

A transition that no action explains is *unexplained*: Kafka did what the protocol does not allow,
or the model is wrong. It is *undecided* instead where the answer depends on missing evidence: a
release that the model does not know, a missing record, a broker whose disk a step has touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from analysis.judge.trace.actions import (
    PossibleAction,
    actions_of_configs,
    actions_of_events,
    actions_of_operators,
    actions_of_the_leader,
    actions_of_timers,
    every_isr,
    likely_isrs,
)
from analysis.judge.trace.results import (
    ExplainedTransition,
    NearestAction,
    TimelineTrace,
    UnexplainedTransition,
    differences,
    nearest_action,
)
from analysis.judge.trace.world import ControllerKnowledge, model_of
from analysis.record.protocol import MIN_ISR, RulesInForce
from analysis.record.requests import Request
from analysis.record.timeline import Timeline
from analysis.spec.partition import NO_LEADER, Partition, UncleanElection
from analysis.spec.protocol import Protocol
from ebbtide.errors import UsageError
from ebbtide.record.rows import BrokerEvent, ConfigChange, PartitionState
from ebbtide.releases.feature_levels import ELR_VERSION

_NEAREST_MAX = 3


def check_timeline(
    timeline: Timeline,
    rules: RulesInForce,
    *,
    statics: Mapping[str, str] | None = None,
    asked: tuple[Request, ...] | None = None,
    touched_disks: frozenset[int] | None = None,
    failing_disks: frozenset[int] = frozenset(),
) -> TimelineTrace:
    """Check every transition of the timeline against the protocol of the release.

    The variant is that of the controller's release at the feature levels of that moment; while the
    controllers' releases are mixed, that of any of them. `statics` are the
    controllers' own properties; None: not known. `asked` are the requests that operators made,
    which leave no record of their own; None: not known. `touched_disks` are the brokers whose log
    directory a step replaced or made fail; None: not known. The tables do not hold directories, so
    an unexplained transition of their partitions is undecided. `failing_disks` are the brokers of which
    a step may have made one of several log directories fail.
    """
    lacking = timeline.missing & {"partitions", "brokers"}
    if lacking:
        return TimelineTrace(refused=f"{' and '.join(sorted(lacking))}.parquet is missing")
    checker = _Checker(timeline, ControllerKnowledge(timeline, rules, statics), asked, touched_disks, failing_disks)
    try:
        results = [checker.check(before, after) for before, after in _transitions(timeline)]
        omitted = list(checker.omissions())
    except UsageError as error:
        return TimelineTrace(refused=f"the model does not know this release: {error.got or error.what}")
    return TimelineTrace(
        explained=tuple(one for one in results if isinstance(one, ExplainedTransition)),
        unexplained=tuple(
            sorted(
                [*omitted, *(one for one in results if isinstance(one, UnexplainedTransition))],
                key=lambda one: one.metadata_offset,
            )
        ),
    )


def _transitions(timeline: Timeline) -> list[tuple[PartitionState | None, PartitionState]]:
    """Return every state with the state before it, in the order of the log.

    None comes before a partition that was created.
    """
    found: list[tuple[PartitionState | None, PartitionState]] = []
    for states in timeline.partitions.values():
        if states and _is_creation(states[0]):
            found.append((None, states[0]))
        found += [(None if _is_creation(after) else before, after) for before, after in pairwise(states)]
    return sorted(found, key=lambda pair: pair[1].metadata_offset)


def _is_creation(state: PartitionState) -> bool:
    return state.partition_epoch == 0 and state.leader_epoch == 0


class _Checker:
    def __init__(
        self,
        timeline: Timeline,
        world: ControllerKnowledge,
        asked: tuple[Request, ...] | None,
        touched_disks: frozenset[int] | None,
        failing_disks: frozenset[int],
    ) -> None:
        self._timeline = timeline
        self._world = world
        self._asked = asked
        self._touched = touched_disks
        self._failing = failing_disks
        self._configs = [
            change
            for change in timeline.configs
            if change.name == MIN_ISR or change.resource == f"feature:{ELR_VERSION}"
        ]

    def check(
        self, before: PartitionState | None, after: PartitionState
    ) -> ExplainedTransition | UnexplainedTransition:
        if before is None:
            return self._creation(after)
        if after.partition_epoch != before.partition_epoch + 1:
            return self._epoch_mistake(before, after)
        seen = model_of(after)
        for candidate in self._candidates(before, after, every=False):
            if candidate.partition == seen:
                return ExplainedTransition(before=before, after=after, action=candidate.name, by=candidate.by)
        touched = self._brokers_of_unknown_directory({*before.replicas, *after.replicas})
        known = self._world.is_unclean_config_known(after.topic, after.metadata_offset)
        if not known and self._is_allowed_uncleanly(before, after):
            why = f"allowed only if the controllers' own properties enable unclean elections of {after.topic}"
            return UnexplainedTransition(
                metadata_offset=after.metadata_offset, before=before, after=after, why=why, undecided=True
            )
        why, undecided = "no action that the protocol allows leads to this state", False
        if touched:
            why = f"it depends on the log directories of brokers {sorted(touched)}, which the tables do not hold"
            undecided = True
        elif self._timeline.gaps:
            why, undecided = "no action explains it, but records of the metadata log may be missing", True
        return UnexplainedTransition(
            metadata_offset=after.metadata_offset,
            before=before,
            after=after,
            why=why,
            undecided=undecided,
            nearest=self._nearest_allowed(before, after),
        )

    def omissions(self) -> Iterator[UnexplainedTransition]:
        """Yield the partitions that a broker event should have changed but did not.

        They have no record in the event's batch. Registrations are not checked: whether one
        followed a clean shutdown is in no record. Partitions without a replica on the broker are
        not checked either.
        """
        in_batch: dict[int, set[tuple[str, int]]] = {}
        for states in self._timeline.partitions.values():
            for state in states:
                for event in self._timeline.events_by_offset.get(state.metadata_offset, ()):
                    in_batch.setdefault(event.metadata_offset, set()).add((state.topic, state.partition))
        for event in self._timeline.brokers:
            changed = in_batch.get(event.metadata_offset, set())
            for topic, number in self._timeline.partitions:
                standing = self._timeline.state_at(topic, number, event.metadata_offset)
                if event.event == "registered" or (topic, number) in changed or standing is None:
                    continue
                if event.broker not in standing.replicas or self._brokers_of_unknown_directory(set(standing.replicas)):
                    continue
                if self._surely_lives_on(standing):
                    yield from self._omitted_changes(event, standing)

    def _brokers_of_unknown_directory(self, brokers: set[int]) -> set[int]:
        """Return the brokers whose log directories the evidence does not cover."""
        return brokers if self._touched is None else brokers & self._touched

    def _surely_lives_on(self, state: PartitionState) -> bool:
        """Return whether the partition surely was not deleted after this state.

        A deletion leaves no row.
        """
        states = self._timeline.states(state.topic, state.partition)
        following = [one for one in states if one.metadata_offset > state.metadata_offset]
        return bool(following) and not _is_creation(following[0])

    def _omitted_changes(self, event: BrokerEvent, state: PartitionState) -> Iterator[UnexplainedTransition]:
        at = event.metadata_offset
        partition, cluster = model_of(state), self._world.cluster(state.topic, at)
        by_variant = [list(actions_of_events(one, partition, cluster, event)) for one in self._world.protocols(at)]
        if any(all(one.partition == partition for one in candidates) for candidates in by_variant):
            return
        for candidate in by_variant[0]:
            if candidate.partition == partition:
                continue
            yield UnexplainedTransition(
                metadata_offset=at,
                before=state,
                after=state,
                why=f"{candidate.by}: the protocol changes the partition then, but no record does",
                undecided=self._timeline.gaps or not self._world.is_unclean_config_known(state.topic, at),
                nearest=(nearest_action(candidate, partition),),
            )

    def _is_allowed_uncleanly(self, before: PartitionState, after: PartitionState) -> bool:
        seen = model_of(after)
        return any(
            candidate.partition == seen
            for candidate in self._candidates(before, after, every=False, unclean=UncleanElection.ENABLED)
        )

    def _candidates(
        self, before: PartitionState, after: PartitionState, *, every: bool, unclean: UncleanElection | None = None
    ) -> Iterator[PossibleAction]:
        """Yield the actions that may have made the transition, likely ones first.

        `every`: try all ISRs that a leader could ask for.
        """
        for protocol in self._world.protocols(after.metadata_offset):
            yield from self._candidates_of(protocol, before, after, every=every, unclean=unclean)

    def _candidates_of(
        self,
        protocol: Protocol,
        before: PartitionState,
        after: PartitionState,
        *,
        every: bool,
        unclean: UncleanElection | None,
    ) -> Iterator[PossibleAction]:
        partition, seen = model_of(before), model_of(after)
        for event in self._timeline.events_by_offset.get(after.metadata_offset, ()):
            at = min(event.metadata_offset, after.metadata_offset)
            yield from actions_of_events(protocol, partition, self._world.cluster(after.topic, at, unclean), event)
            if event.event == "registered" and event.broker_epoch <= after.metadata_offset:
                return  # a broker epoch is the offset at which the registration's batch begins
        for change in self._changes_between(before, after):
            cluster = self._world.cluster(after.topic, change.metadata_offset, unclean)
            yield from actions_of_configs(protocol, partition, cluster, change)
        cluster = self._world.cluster(after.topic, after.metadata_offset, unclean)
        isrs = every_isr(partition) if every else likely_isrs(partition, seen)
        yield from actions_of_the_leader(protocol, partition, cluster, isrs)
        yield from actions_of_timers(protocol, partition, cluster, self._touched, failing_disks=self._failing)
        asked = None if self._asked is None else [one for one in self._asked if one.may_have_made(after)]
        yield from actions_of_operators(protocol, partition, cluster, seen, asked)

    def _changes_between(self, before: PartitionState, after: PartitionState) -> list[ConfigChange]:
        bearing = {"cluster", f"topic:{after.topic}", f"feature:{ELR_VERSION}"}
        return [
            change
            for change in reversed(self._configs)
            if before.metadata_offset < change.metadata_offset <= after.metadata_offset and change.resource in bearing
        ]

    def _creation(self, after: PartitionState) -> ExplainedTransition | UnexplainedTransition:
        """KIP-631: a new partition's ISR is its active replicas, led by the first of them."""
        active = self._world.cluster(after.topic, after.metadata_offset).active
        isr = tuple(broker for broker in after.replicas if broker in active)
        made = Partition(replicas=after.replicas, isr=frozenset(isr), leader=isr[0] if isr else NO_LEADER)
        if made == model_of(after):
            return ExplainedTransition(before=None, after=after, action="create", by="an operator")
        near = nearest_action(PossibleAction("create", "an operator", made), model_of(after))
        why = "the protocol does not create a partition in this state"
        return UnexplainedTransition(
            metadata_offset=after.metadata_offset,
            before=None,
            after=after,
            why=why,
            undecided=self._timeline.gaps,
            nearest=(near,),
        )

    def _epoch_mistake(self, before: PartitionState, after: PartitionState) -> UnexplainedTransition:
        rise = after.partition_epoch - before.partition_epoch
        if rise > 1 and self._timeline.gaps:
            why = f"{rise - 1} records in between are not in the evidence"
            return UnexplainedTransition(
                metadata_offset=after.metadata_offset, before=before, after=after, why=why, undecided=True
            )
        why = f"the partition epoch rose by {rise}; each record raises it by 1"
        return UnexplainedTransition(metadata_offset=after.metadata_offset, before=before, after=after, why=why)

    def _nearest_allowed(self, before: PartitionState, after: PartitionState) -> tuple[NearestAction, ...]:
        """Return the allowed states that differ in the fewest fields from what was seen."""
        seen, standing = model_of(after), model_of(before)
        found: dict[Partition, PossibleAction] = {}
        for candidate in self._candidates(before, after, every=True):
            if candidate.partition != standing:
                found.setdefault(candidate.partition, candidate)
        ranked = sorted(found.values(), key=lambda one: len(differences(one.partition, seen)))
        return tuple(nearest_action(one, seen) for one in ranked[:_NEAREST_MAX])
