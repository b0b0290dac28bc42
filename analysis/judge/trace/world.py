"""Replays what the controller knew at an offset of the metadata log.

The result is the model's `Cluster` and the variant in force. Registrations, configs and feature
levels are replayed from the timeline, so a level or a min ISR that changes during a run counts from
its record on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

from analysis.record.protocol import MIN_ISR, RulesInForce, protocol_in_force
from analysis.record.timeline import Timeline
from analysis.spec.partition import NO_EPOCH, NOBODY, Brokers, Cluster, Partition, UncleanElection
from analysis.spec.protocol import Protocol
from ebbtide.record.rows import BrokerEvent, PartitionState
from ebbtide.releases.known_releases import METADATA_VERSION

_KAFKA_MIN_ISR = 1
"""min.insync.replicas where neither topic, cluster nor controller sets it."""


class _Registrations(NamedTuple):
    """Sets of brokers and broker epochs as the controller stored them."""

    registered: Brokers = NOBODY
    unfenced: Brokers = NOBODY
    shutting_down: Brokers = NOBODY
    epochs: tuple[int, ...] = ()

    def after(self, event: BrokerEvent) -> _Registrations:
        broker = frozenset({event.broker})
        match event.event:
            case "registered":
                epochs = list(self.epochs) + [NO_EPOCH] * (event.broker + 1 - len(self.epochs))
                epochs[event.broker] = event.broker_epoch
                return _Registrations(
                    self.registered | broker, self.unfenced - broker, self.shutting_down - broker, tuple(epochs)
                )
            case "unregistered":
                return _Registrations(
                    self.registered - broker, self.unfenced - broker, self.shutting_down - broker, self.epochs
                )
            case "unfenced":
                return self._replace(unfenced=self.unfenced | broker)
            case "fenced":
                return self._replace(unfenced=self.unfenced - broker)
            case "shutting_down":
                return self._replace(shutting_down=self.shutting_down | broker)
        return self


class ControllerKnowledge:
    """The controller's knowledge by metadata offset.

    `statics` are the controllers' own properties. None: they are not known, and where a decision
    depends on one, `is_unclean_config_known` says so.
    """

    def __init__(self, timeline: Timeline, rules: RulesInForce, statics: Mapping[str, str] | None) -> None:
        self._timeline = timeline
        self._rules = rules
        self._statics = statics
        self._offsets = [event.metadata_offset for event in timeline.brokers]
        self._registrations = [_Registrations()]
        for event in timeline.brokers:
            self._registrations.append(self._registrations[-1].after(event))

    def protocols(self, offset: int) -> list[Protocol]:
        """Return the variants of which the controller may be that wrote the record at `offset`.

        More than one while the controllers' releases are mixed. Raises `UsageError` for an unknown
        release.
        """
        levels = self._rules.levels(offset - 1)
        found = [protocol_in_force(one, levels) for one in self._rules.software.controller_releases(offset)]
        return list(dict.fromkeys(found))

    def cluster(self, topic: str, before_offset: int, unclean: UncleanElection | None = None) -> Cluster:
        """Return what the controller knew when it wrote the record at `before_offset`.

        `unclean` overrides the config.
        """
        at = before_offset - 1
        known = self._registrations[bisect_left(self._offsets, before_offset)]
        return Cluster(
            registered=known.registered,
            unfenced=known.unfenced,
            shutting_down=known.shutting_down,
            epochs=known.epochs,
            min_isr=self._min_isr(topic, at),
            topic_min_isr=self._rules.config_value(f"topic:{topic}", MIN_ISR, at) is not None,
            elr=self._rules.is_elr_on(at) is True,
            unclean=self._unclean_election(topic, at) if unclean is None else unclean,
            metadata_version=self._rules.levels(at).get(METADATA_VERSION, 1),
        )

    def is_unclean_config_known(self, topic: str, before_offset: int) -> bool:
        """Return whether the evidence says if unclean.leader.election.enable was set."""
        return self._rules.is_unclean_election_enabled(topic, before_offset - 1, self._statics) is not None

    def _unclean_election(self, topic: str, at: int) -> UncleanElection:
        enabled = self._rules.is_unclean_election_enabled(topic, at, self._statics)
        return UncleanElection.ENABLED if enabled else UncleanElection.DISABLED

    def _min_isr(self, topic: str, at: int) -> int:
        """Return the configured min ISR, capped by the replicas of partition 0.

        The controller counts that way.
        """
        configured = self._rules.configured_min_isr(topic, at)
        if configured is None:
            configured = int((self._statics or {}).get(MIN_ISR, _KAFKA_MIN_ISR))
        first = self._timeline.state_at(topic, 0, at)
        return min(configured, len(first.replicas)) if first is not None else configured


def model_of(state: PartitionState) -> Partition:
    """Convert a state of the timeline to the model's partition."""
    return Partition(
        replicas=state.replicas,
        isr=frozenset(state.isr),
        elr=frozenset(state.elr),
        last_known=tuple(sorted(state.last_known_elr)),
        adding=frozenset(state.adding),
        removing=frozenset(state.removing),
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        recovering=state.recovering,
    )
