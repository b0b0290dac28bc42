"""Says which rules of the protocol were in force, and when.

They follow from feature levels, configs and the release.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain

import msgspec
from packaging.version import InvalidVersion, Version

from analysis.record.timeline import Timeline
from analysis.spec.own import own_variant_file
from analysis.spec.partition import NO_EPOCH, NOBODY, Cluster, Partition
from analysis.spec.protocol import Protocol
from analysis.spec.variants import VARIANTS, protocol_for
from ebbtide.record.judged_by import JudgedBy, RulesOfRelease
from ebbtide.record.manifest import Manifest
from ebbtide.record.rows import PartitionState, Row
from ebbtide.record.topic_lives import name_of
from ebbtide.releases.known_jars import has_jars_of_release
from ebbtide.releases.known_releases import ELR_VERSION, METADATA_VERSION, is_known, judged_as, version_of

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"

NEWEST_VARIANT = "elr_43"

_named: Protocol | None = None


@contextmanager
def judged_by_variant(protocol: Protocol) -> Iterator[None]:
    """Judge the records of the block by this variant, whatever their releases are."""
    global _named
    before, _named = _named, protocol
    try:
        yield
    finally:
        _named = before


def protocol_in_force(kafka: str, features: Mapping[str, int]) -> Protocol:
    """Return the variant that a release is judged by with its `features`. Raises `UsageError` as `protocol_for` does.

    It is the one that `--variant` names, or else that of the nearest known release.
    """
    if _named is not None:
        return _named
    return protocol_for(kafka if _version(kafka) is None else judged_as(kafka).version, features)


def judged_by(kafka: str, path: Sequence[str] = ()) -> JudgedBy | None:
    """Return the rules that a run on a release is judged by; None if the text is not a release.

    `path` has each release that a node of the run had.
    """
    if any(_version(one) is None for one in (kafka, *path)):
        return None
    rules = {one: _rules_of(one) for one in (kafka, *path)}
    own = own_variant_file(rules[kafka].variant.replace("-", "_"))
    return JudgedBy(
        variant=rules[kafka].variant,
        nearest=rules[kafka].nearest,
        known=rules[kafka].known,
        file=msgspec.UNSET if own is None else own.path.name,
        sha256=msgspec.UNSET if own is None else own.sha256,
        releases=[rules[one] for one in path] if len(path) > 1 else msgspec.UNSET,
    )


def _rules_of(kafka: str) -> RulesOfRelease:
    return RulesOfRelease(
        kafka=kafka,
        variant=protocol_in_force(kafka, {}).name.replace("_", "-"),
        nearest=judged_as(kafka).version,
        known=is_known(kafka) or has_jars_of_release(kafka),
    )


class Software:
    """The releases of the nodes by time, and of the active controller by metadata offset.

    Releases are mixed while an upgrade is under way. The manifest has the start of each release on each node. A node's
    process has ended before its next one starts, and all times are of one host's clock, so the answer is exact for a
    node.
    """

    def __init__(self, manifest: Manifest, timeline: Timeline) -> None:
        self._kafka = manifest.kafka
        self._releases, self._every = manifest.releases, manifest.release_path
        self._controllers = manifest.topology.controllers
        states = (one for each in timeline.partitions.values() for one in each)
        rows: chain[Row] = chain(timeline.brokers, timeline.configs, states)
        self._times = sorted({(one.metadata_offset, one.at_ns) for one in rows})

    @property
    def every_release(self) -> tuple[str, ...]:
        """Each release that a node ran, the first one first."""
        return self._every

    def release_of(self, node: int, at_ns: int) -> str:
        """Return the release of the node's last process that started until `at_ns`."""
        started = [one for one in self._releases.get(str(node), ()) if one.started_ns <= at_ns]
        return started[-1].kafka if started else self._kafka

    def is_mixed(self, at_ns: int) -> bool:
        """Return whether nodes ran different releases then."""
        return len({self.release_of(int(node), at_ns) for node in self._releases}) > 1

    def controller_releases(self, metadata_offset: int) -> tuple[str, ...]:
        """Return the releases of which the controller may be that wrote the record at this offset.

        They are more than one while the controllers are mixed: no table says which one was active.
        """
        if not self._releases:
            return (self._kafka,)
        at = min(bisect_left(self._times, (metadata_offset, 0)), len(self._times) - 1)
        if at < 0:
            return self.every_release
        at_ns = self._times[at][1]
        return tuple(dict.fromkeys(self.release_of(one, at_ns) for one in self._controllers)) or self.every_release


class RulesInForce:
    """The rules in force at a metadata offset; any answer may be None: not known.

    A level or config in the metadata log counts from its record on. Where the log never has one,
    the manifest's value holds for the whole run. After an upgrade, the controller's rules follow the
    release of the active controller, and a leader's rules that of its broker.
    """

    def __init__(self, manifest: Manifest, timeline: Timeline) -> None:
        self._manifest = manifest
        self._timeline = timeline
        self.software = Software(manifest, timeline)
        self._changes: dict[tuple[str, str], list[tuple[int, str | None]]] = {}
        for change in timeline.configs:
            key = (change.resource, change.name)
            self._changes.setdefault(key, []).append((change.metadata_offset, change.value))

    @property
    def newest_release(self) -> Version | None:
        """The newest release that a node ran; None: a release is not known."""
        known = [_version(one) for one in self.software.every_release]
        return None if None in known else max(one for one in known if one is not None)

    def _controllers_protocols(self, at: int) -> list[Protocol] | None:
        """Return the variants of which the active controller may be; None: a release is not known."""
        found = [_variant(one) for one in self.software.controller_releases(at)]
        return None if None in found else [one for one in found if one is not None]

    def _value_in_force(self, resource: str, name: str, at: int) -> tuple[bool, str | None]:
        """Return whether the log sets it up to offset `at`, and the newest value."""
        changes = self._changes.get((resource, name), [])
        known = bisect_right(changes, at, key=lambda change: change[0])
        return bool(known), changes[known - 1][1] if known else None

    def config_value(self, resource: str, name: str, at: int) -> str | None:
        """Return the value that the log has set and not deleted since."""
        return self._value_in_force(resource, name, at)[1]

    def levels(self, at: int) -> dict[str, int]:
        """Return every feature level that is known."""
        logged = {resource.removeprefix("feature:") for resource, _ in self._changes if resource.startswith("feature:")}
        levels = {name: self._level(name, at) for name in (*self._manifest.features, *logged)}
        return {name: level for name, level in levels.items() if level is not None}

    def _level(self, feature: str, at: int) -> int | None:
        known, value = self._value_in_force(f"feature:{feature}", "level", at)
        if known:
            return int(value) if value is not None else 0
        if feature != METADATA_VERSION and self._is_raised_later(feature):
            # A later record raised it. Before its first record a feature is off, as in a cluster that was upgraded.
            return None if self._timeline.gaps else 0
        return self._manifest.features.get(feature)

    def _is_raised_later(self, feature: str) -> bool:
        """Whether the log sets the level of a feature, whose first record is still to come."""
        return (f"feature:{feature}", "level") in self._changes

    def is_elr_on(self, at: int) -> bool | None:
        """KIP-966: return whether the controller keeps an ELR.

        No release before 4.0 has the feature.
        """
        level = self._level(ELR_VERSION, at)
        if level is not None:
            return level >= 1
        if self._is_raised_later(ELR_VERSION):
            return None
        protocols = self._controllers_protocols(at)
        if self._manifest.features or (protocols is not None and not any(one.has_elr for one in protocols)):
            return False
        return None

    def has_kip_903(self, at: int) -> bool | None:
        """KIP-903: return whether an ISR member with an old broker epoch is refused.

        This follows the metadata.version.
        """
        level, protocols = self._level(METADATA_VERSION, at), self._controllers_protocols(at)
        if protocols is None:
            return None
        checking = [one for one in protocols if one.checks_epochs]
        if not checking:
            return False
        if level is None:
            return None
        broker = frozenset({0})
        asked = Cluster(registered=broker, unfenced=broker, epochs=(0,), metadata_version=level)
        # No cluster finalises a level that one of its nodes does not know.
        return checking[0].fetch_epoch(asked, 0) != NO_EPOCH

    def is_unclean_election_enabled(self, topic: str, at: int, statics: Mapping[str, str] | None) -> bool | None:
        """Return unclean.leader.election.enable for the topic at `at`.

        The topic's own config counts first, then the cluster's, then the controllers' own
        properties (`statics`). None: neither config is set, and the properties or the configs are
        not known. Also None if a controller has a dynamic config of its own, since no table says
        which controller was active.
        """
        said = self.config_value(f"topic:{topic}", UNCLEAN_ELECTION, at)
        if said is None and any(
            self.config_value(f"broker:{one}", UNCLEAN_ELECTION, at) for one in self._manifest.topology.controllers
        ):
            return None
        if said is None:
            said = self.config_value("cluster", UNCLEAN_ELECTION, at)
        if said is None and statics is not None and "configs" not in self._timeline.missing:
            said = statics.get(UNCLEAN_ELECTION, "false")
        return None if said is None else said.strip().lower() == "true"

    def elects_uncleanly(self, topic: str, at: int, statics: Mapping[str, str] | None) -> bool | None:
        """Return whether the controller makes unclean elections by itself.

        It does where the config says so, from 3.9 on (KAFKA-12670).
        """
        protocols = self._controllers_protocols(at)
        if protocols is None:
            return None
        reading = {one.reads_unclean_config for one in protocols}
        enabled = True in reading and self.is_unclean_election_enabled(topic, at, statics)
        return None if enabled and False in reading else enabled

    def hw_waits_for_min_isr(self, leader: int, at_ns: int) -> bool | None:
        """KIP-966: whether this leader's HW waits for min ISR, as in every release from 3.7 on.

        The KIP calls it "Additional High Watermark advancement requirement".
        """
        protocol = _variant(self.software.release_of(leader, at_ns))
        return None if protocol is None else protocol.strict_min_isr

    def min_isr(self, state: PartitionState, at: int) -> int | None:
        """Return the effective min ISR after `at`: min(min.insync.replicas, RF).

        The controller counts the replicas of the topic's partition 0, a broker those of the
        partition; where they differ the larger count is taken. More states then count as below min
        ISR. That is lenient towards an ELR, which needs such a state, but not towards a HW that
        moved: use `leader_min_isr` there.
        """
        first = self._timeline.state_at(state.topic, 0, at)
        return self._effective_min_isr(state.topic, max(state.replicas, first.replicas if first else (), key=len), at)

    def leader_min_isr(self, state: PartitionState, at: int) -> int | None:
        """Return the effective min ISR by which a leader holds back its HW.

        It counts the partition's own replicas.
        """
        return self._effective_min_isr(state.topic, state.replicas, at)

    def _effective_min_isr(self, topic: str, counted: tuple[int, ...], at: int) -> int | None:
        configured = self.configured_min_isr(topic, at)
        if configured is None or not counted:
            return None
        known = Cluster(registered=NOBODY, unfenced=NOBODY, min_isr=configured)
        return VARIANTS[NEWEST_VARIANT].effective_min_isr(Partition(replicas=counted, isr=NOBODY), known)

    def configured_min_isr(self, topic: str, at: int) -> int | None:
        """Return min.insync.replicas of the topic, else of the cluster, else as created."""
        set_on_topic, value = self._value_in_force(f"topic:{topic}", MIN_ISR, at)
        if value is not None:
            return int(value)
        _, default = self._value_in_force("cluster", MIN_ISR, at)
        if default is not None:
            return int(default)
        setup = self._manifest.topics.get(name_of(topic))
        return None if set_on_topic or setup is None else setup.min_isr

    def min_isr_changes(self, topic: str) -> list[int]:
        """Return the metadata offsets at which the topic's min.insync.replicas changed.

        Changes of the cluster's default count too.
        """
        changes = self._changes.get((f"topic:{topic}", MIN_ISR), []) + self._changes.get(("cluster", MIN_ISR), [])
        return sorted(offset for offset, _ in changes)


def _version(release: str) -> Version | None:
    try:
        return version_of(release)
    except InvalidVersion:
        return None


def _variant(release: str) -> Protocol | None:
    """Return the variant that a release runs; None if the release is not known."""
    return None if _version(release) is None else protocol_in_force(release, {})
