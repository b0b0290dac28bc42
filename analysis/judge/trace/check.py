"""Checks a timeline: finds the action and the actor behind each transition.

A transition that no action explains is *unexplained*: Kafka did what the protocol does not allow,
or the model is wrong. It is *undecided* instead where the answer depends on missing evidence: a
release that the model does not know, a missing record, a broker whose disk a step has touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise

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
from analysis.spec.partition import NO_LEADER, Cluster, Partition, UncleanElection
from analysis.spec.protocol import Protocol
from ebbtide.errors import UsageError
from ebbtide.own_code import OwnCodeError
from ebbtide.record.rows import BrokerEvent, ConfigChange, PartitionState
from ebbtide.releases.known_releases import ELR_VERSION

_NEAREST_MAX = 3


def check_timeline(
    timeline: Timeline,
    rules: RulesInForce,
    *,
    statics: Mapping[str, str] | None = None,
    asked: tuple[Request, ...] | None = None,
    touched_disks: frozenset[int] | None = None,
    failing_disks: frozenset[int] = frozenset(),
    in_final_read: frozenset[str] = frozenset(),
) -> TimelineTrace:
    """Check every transition of the timeline against the protocol of the release.

    The variant is that of the controller's release at the feature levels of that moment; while the
    controllers' releases are mixed, that of any of them. `statics` are the
    controllers' own properties; None: not known. `asked` are the requests that operators made,
    which leave no record of their own; None: not known. `touched_disks` are the brokers whose log
    directory a step replaced or made fail; None: not known. The tables do not hold directories, so
    an unexplained transition of their partitions is undecided. `failing_disks` are the brokers of which
    a step may have made one of several log directories fail. `in_final_read` are the partitions (`topic-partition`)
    that were there at the end.
    """
    lacking = timeline.missing & {"partitions", "brokers"}
    if lacking:
        return TimelineTrace(refused=f"{' and '.join(sorted(lacking))}.parquet is missing")
    world = ControllerKnowledge(timeline, rules, statics)
    checker = _Checker(timeline, world, asked, touched_disks, failing_disks, in_final_read)
    try:
        results = [checker.check(before, after) for before, after in _transitions(timeline)]
        explained = tuple(one for one in results if isinstance(one, ExplainedTransition))
        omitted = list(checker.omissions(explained))
    except OwnCodeError:
        raise
    except UsageError as error:
        return TimelineTrace(refused=f"the model does not know this release: {error.got or error.what}")
    return TimelineTrace(
        explained=explained,
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
        in_final_read: frozenset[str],
    ) -> None:
        self._timeline = timeline
        self._in_final_read = in_final_read
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

    def omissions(self, explained: Sequence[ExplainedTransition]) -> Iterator[UnexplainedTransition]:
        """Yield the partitions that a broker event should have changed but did not; `explained` are all that have.

        They have no record in the event's batch. No table has the batches: a record beside the event may be of another
        batch. It counts as the event's if it is what the event does, or if nothing explains it. Registrations are not
        checked: whether one followed a clean shutdown is in no record. Partitions without a replica on the broker are
        not checked either.
        """
        of_others = {(one.after.topic, one.after.partition, one.after.metadata_offset) for one in explained}
        beside: dict[tuple[int, str, int], list[tuple[PartitionState | None, PartitionState]]] = {}
        for before, after in _transitions(self._timeline):
            for event in self._timeline.events_by_offset.get(after.metadata_offset, ()):
                beside.setdefault((event.metadata_offset, after.topic, after.partition), []).append((before, after))
        for event in self._timeline.brokers:
            for topic, number in self._timeline.partitions:
                standing = self._timeline.state_at(topic, number, event.metadata_offset)
                if event.event == "registered" or standing is None or event.broker not in standing.replicas:
                    continue
                is_changed = any(
                    (topic, number, after.metadata_offset) not in of_others or self._may_have_made(event, before, after)
                    for before, after in beside.get((event.metadata_offset, topic, number), ())
                )
                if is_changed or not self._surely_lives_on(standing):
                    continue
                if (omitted := self._omission(event, standing)) is not None:
                    yield omitted

    def _may_have_made(self, event: BrokerEvent, before: PartitionState | None, after: PartitionState) -> bool:
        made = () if before is None else self._possible_actions(event, before)
        return any(one.partition == model_of(after) for possible in made for one in possible)

    def _brokers_of_unknown_directory(self, brokers: set[int]) -> set[int]:
        """Return the brokers whose log directories the evidence does not cover."""
        return brokers if self._touched is None else brokers & self._touched

    def _surely_lives_on(self, state: PartitionState) -> bool:
        """Return whether the partition surely was not deleted after this state.

        A deletion leaves no row.
        """
        states = self._timeline.states(state.topic, state.partition)
        following = [one for one in states if one.metadata_offset > state.metadata_offset]
        if following:
            return not _is_creation(following[0])
        return f"{state.topic}-{state.partition}" in self._in_final_read

    def _omission(self, event: BrokerEvent, state: PartitionState) -> UnexplainedTransition | None:
        """Return the change of one partition that an event lacks; None: the protocol allows that it stays.

        What no table has is assumed each way: the directories that a step touched online and offline, an unclean
        election enabled and not. If some assumptions allow that the partition stays as it is, it is undecided.
        """
        partition, at = model_of(state), event.metadata_offset
        assumed = list(self._possible_actions(event, state))
        lacking = [some[0] for some in assumed if some and all(one.partition != partition for one in some)]
        if not lacking:
            return None
        depends = "" if len(lacking) == len(assumed) else ", unless evidence that no table has allows that it stays"
        return UnexplainedTransition(
            metadata_offset=at,
            before=state,
            after=state,
            why=f"{lacking[0].by}: the protocol changes the partition then, but no record does{depends}",
            undecided=self._timeline.gaps or bool(depends),
            nearest=(nearest_action(lacking[0], partition),),
        )

    def _possible_actions(self, event: BrokerEvent, state: PartitionState) -> Iterator[list[PossibleAction]]:
        """Yield what the event may do to the partition, for each assumption."""
        for cluster in self._possible_clusters(state, event.metadata_offset):
            for protocol in self._world.protocols(event.metadata_offset):
                yield list(actions_of_events(protocol, model_of(state), cluster, event))

    def _possible_clusters(self, state: PartitionState, at: int) -> Iterator[Cluster]:
        """Yield what the controller may have known of the partition's replicas at an offset of the log."""
        known = self._world.is_unclean_config_known(state.topic, at)
        touched = sorted(self._brokers_of_unknown_directory({*state.replicas}))
        for unclean in (None,) if known else (UncleanElection.DISABLED, UncleanElection.ENABLED):
            cluster = self._world.cluster(state.topic, at, unclean)
            for count in range(len(touched) + 1):
                for offline in combinations(touched, count):
                    yield cluster._replace(offline=frozenset(offline))

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
