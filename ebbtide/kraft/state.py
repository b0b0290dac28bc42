"""The cluster's state, and the rule by which each metadata record changes it.

The rules are those of the broker's own replay (`PartitionRegistration.merge`, `TopicDelta`, `ClusterDelta`):

- A partition change always raises the partition epoch by one. It raises the leader epoch by one where it names a
  leader, even the same leader.
- Clearing the ELR of a topic raises the partition epoch of only those partitions that had an ELR.
- Deleting a topic deletes its configs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from ebbtide.kraft import messages as m
from ebbtide.kraft.commits import VoterSet, voter_set_of
from ebbtide.kraft.records import MetadataRecord
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.rows import BrokerEvent, ConfigChange, PartitionState, Row
from ebbtide.releases.known_releases import METADATA_VERSION

_NS_PER_MS = 1_000_000
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4


class MetadataState:
    """Everything that replay remembers. Only `replay` may change it."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.brokers: dict[int, BrokerEvent] = {}
        self.configs: dict[tuple[str, str], ConfigChange] = {}
        self.controller: int | None = None
        self.topic_ids: dict[str, str] = {}
        """The name of every topic by its id, also of deleted topics."""
        self.skipped: Counter[str] = Counter()
        self.voter_sets: list[VoterSet] = []
        """The voters of a dynamic quorum, oldest first; also those before a snapshot."""
        self._topic_names: dict[str, str] = {}

    def replay(self, record: MetadataRecord) -> Sequence[Row]:
        """Apply one record; returns a row per change.

        Records without a rule change nothing here.
        """
        rule = _RULES.get(record.name)
        return () if rule is None else rule(self, record)

    def id_of_topic(self, name: str) -> str | None:
        """Return the id of the topic that has this name; the newest, should there be several."""
        return next((topic_id for topic_id, other in reversed(self._topic_names.items()) if other == name), None)

    def apply_topic(self, record: MetadataRecord) -> Sequence[Row]:
        """Remember a topic's name by its id."""
        topic = record.as_type(m.TopicRecord)
        self._topic_names[topic.topic_id] = self.topic_ids[topic.topic_id] = topic.name
        return ()

    def remove_topic(self, record: MetadataRecord) -> Sequence[Row]:
        """Remove a topic and its configs.

        A partition that no longer exists has no row.
        """
        name = self._topic_names.pop(record.as_type(m.RemoveTopicRecord).topic_id, None)
        if name is None:
            return self._skip("RemoveTopicRecord of an unknown topic")
        for partition in [each for each in self.partitions if each.topic == name]:
            del self.partitions[partition]
        resource = f"topic:{name}"
        gone = [key for key in self.configs if key[0] == resource]
        return [self._set_config(record, *key, None) for key in gone]

    def apply_partition(self, record: MetadataRecord) -> Sequence[Row]:
        """Set the full state of a partition."""
        new = record.as_type(m.PartitionRecord)
        name = self._topic_names.get(new.topic_id)
        if name is None:
            return self._skip("PartitionRecord of an unknown topic")
        row = PartitionState(
            metadata_offset=record.offset,
            metadata_epoch=record.epoch,
            at_ns=record.timestamp_ms * _NS_PER_MS,
            topic=name,
            partition=new.partition_id,
            leader=new.leader,
            leader_epoch=new.leader_epoch,
            partition_epoch=new.partition_epoch,
            replicas=new.replicas,
            isr=new.isr,
            elr=new.eligible_leader_replicas or (),
            last_known_elr=new.last_known_elr or (),
            adding=new.adding_replicas,
            removing=new.removing_replicas,
            leader_recovery_state=new.leader_recovery_state,
        )
        return [self._store(row)]

    def apply_partition_change(self, record: MetadataRecord) -> Sequence[Row]:
        """Change a partition; null fields are unchanged."""
        change = record.as_type(m.PartitionChangeRecord)
        name = self._topic_names.get(change.topic_id)
        old = None if name is None else self.partitions.get(TopicPartition(name, change.partition_id))
        if old is None:
            return self._skip("PartitionChangeRecord of an unknown partition")
        elected = change.leader != m.NO_LEADER_CHANGE
        recovers = change.leader_recovery_state != m.RECOVERY_STATE_UNCHANGED
        new = msgspec.structs.replace(
            _restamp(old, record),
            leader=change.leader if elected else old.leader,
            leader_epoch=old.leader_epoch + elected,
            partition_epoch=old.partition_epoch + 1,
            replicas=_new_or_old(change.replicas, old.replicas),
            isr=_new_or_old(change.isr, old.isr),
            elr=_new_or_old(change.eligible_leader_replicas, old.elr),
            last_known_elr=_new_or_old(change.last_known_elr, old.last_known_elr),
            adding=_new_or_old(change.adding_replicas, old.adding),
            removing=_new_or_old(change.removing_replicas, old.removing),
            leader_recovery_state=change.leader_recovery_state if recovers else old.leader_recovery_state,
        )
        return [self._store(new)]

    def clear_elr(self, record: MetadataRecord) -> Sequence[Row]:
        """Empty ELR and last known ELR of one topic, or of all."""
        name = record.as_type(m.ClearElrRecord).topic_name
        had = [row for row in self.partitions.values() if name in ("", row.topic) and (row.elr or row.last_known_elr)]
        return [
            self._store(
                msgspec.structs.replace(
                    _restamp(row, record), elr=(), last_known_elr=(), partition_epoch=row.partition_epoch + 1
                )
            )
            for row in had
        ]

    def register_broker(self, record: MetadataRecord) -> Sequence[Row]:
        """Register a broker, fenced unless the record says otherwise, as a snapshot's may."""
        new = record.as_type(m.RegisterBrokerRecord)
        events = ["registered"]
        if not new.fenced:
            events.append("unfenced")
        if new.in_controlled_shutdown:
            events.append("shutting_down")
        rows = [self._broker(record, new.broker_id, new.broker_epoch, new.incarnation_id, event) for event in events]
        supported = {one.name: one.max_supported_version for one in new.features}
        rows[0] = msgspec.structs.replace(rows[0], metadata_version=supported.get(METADATA_VERSION))
        self.brokers[new.broker_id] = rows[-1]
        return rows

    def unregister_broker(self, record: MetadataRecord) -> Sequence[Row]:
        """End a registration."""
        gone = record.as_type(m.UnregisterBrokerRecord)
        return [self._known_broker(record, gone.broker_id, gone.broker_epoch, "unregistered")]

    def apply_registration_change(self, record: MetadataRecord) -> Sequence[Row]:
        """Fence or unfence a broker, or begin its controlled shutdown.

        A change of its log dirs is not an event.
        """
        change = record.as_type(m.BrokerRegistrationChangeRecord)
        events = []
        if change.in_controlled_shutdown == 1:
            events.append("shutting_down")
        if change.fenced:
            events.append("fenced" if change.fenced == 1 else "unfenced")
        return [self._known_broker(record, change.broker_id, change.broker_epoch, event) for event in events]

    def apply_fencing(self, record: MetadataRecord) -> Sequence[Row]:
        """Fence or unfence a broker by the records of early releases."""
        broker = record.as_type(m.FenceBrokerRecord)
        event = "fenced" if record.name == "FenceBrokerRecord" else "unfenced"
        return [self._known_broker(record, broker.id, broker.epoch, event)]

    def apply_config(self, record: MetadataRecord) -> Sequence[Row]:
        """Set a topic's, a broker's or the cluster's default config."""
        config = record.as_type(m.ConfigRecord)
        if config.resource_type == _TOPIC_RESOURCE:
            resource = f"topic:{config.resource_name}"
        elif config.resource_type == _BROKER_RESOURCE:
            resource = f"broker:{config.resource_name}" if config.resource_name else "cluster"
        else:
            return self._skip(f"ConfigRecord of resource type {config.resource_type}")
        return [self._set_config(record, resource, config.name, config.value)]

    def apply_feature_level(self, record: MetadataRecord) -> Sequence[Row]:
        """Set a finalized feature level; 0 switches a feature off."""
        feature = record.as_type(m.FeatureLevelRecord)
        return [self._set_config(record, f"feature:{feature.name}", "level", str(feature.feature_level))]

    def apply_kraft_version(self, record: MetadataRecord) -> Sequence[Row]:
        """Set kraft.version, the only feature whose level is a control record (KIP-853)."""
        return [self._set_config(record, "feature:kraft.version", "level", str(record.as_type(m.KRaftVersion).level))]

    def apply_voters(self, record: MetadataRecord) -> Sequence[Row]:
        """Set the voters of a dynamic quorum."""
        self.voter_sets.append(voter_set_of(record))
        return ()

    def apply_leader_change(self, record: MetadataRecord) -> Sequence[Row]:
        """Set the active controller."""
        self.controller = record.as_type(m.LeaderChange).leader_id
        return ()

    def differences(self, before: MetadataState, at: MetadataRecord) -> list[Row]:
        """Return the rows that lead from `before` to this state.

        They carry the offset, epoch and time of `at`.
        """
        rows: list[Row] = []
        for partition, row in self.partitions.items():
            old = before.partitions.get(partition)
            if old is None or _restamp(old, at) != _restamp(row, at):
                rows.append(row)
        for broker in self.brokers.values():
            then = before.brokers.get(broker.broker)
            if then is None and broker.event not in ("registered", "unregistered"):
                rows.append(msgspec.structs.replace(broker, event="registered"))
            if then is None or (then.broker_epoch, then.event) != (broker.broker_epoch, broker.event):
                rows.append(broker)
        for key, config in self.configs.items():
            if key not in before.configs or before.configs[key].value != config.value:
                rows.append(config)
        rows += [_config(at, *key, None) for key in before.configs.keys() - self.configs.keys()]
        for broker in before.brokers.values():
            if broker.broker not in self.brokers and broker.event != "unregistered":
                rows.append(self._broker(at, broker.broker, broker.broker_epoch, broker.incarnation, "unregistered"))
        return rows

    def _known_broker(self, record: MetadataRecord, broker: int, epoch: int, event: str) -> BrokerEvent:
        known = self.brokers.get(broker)
        incarnation = known.incarnation if known is not None and known.broker_epoch == epoch else None
        return self._broker(record, broker, epoch, incarnation, event)

    def _broker(
        self, record: MetadataRecord, broker: int, epoch: int, incarnation: str | None, event: str
    ) -> BrokerEvent:
        row = self.brokers[broker] = BrokerEvent(
            metadata_offset=record.offset,
            at_ns=record.timestamp_ms * _NS_PER_MS,
            broker=broker,
            broker_epoch=epoch,
            incarnation=incarnation,
            event=event,
        )
        return row

    def _set_config(self, record: MetadataRecord, resource: str, name: str, value: str | None) -> ConfigChange:
        row = _config(record, resource, name, value)
        if value is None:
            self.configs.pop((resource, name), None)
        else:
            self.configs[resource, name] = row
        return row

    def _store(self, row: PartitionState) -> PartitionState:
        self.partitions[TopicPartition(row.topic, row.partition)] = row
        return row

    def _skip(self, reason: str) -> Sequence[Row]:
        self.skipped[reason] += 1
        return ()


_RULES: dict[str, Callable[[MetadataState, MetadataRecord], Sequence[Row]]] = {
    "TopicRecord": MetadataState.apply_topic,
    "RemoveTopicRecord": MetadataState.remove_topic,
    "PartitionRecord": MetadataState.apply_partition,
    "PartitionChangeRecord": MetadataState.apply_partition_change,
    "ClearElrRecord": MetadataState.clear_elr,
    "RegisterBrokerRecord": MetadataState.register_broker,
    "UnregisterBrokerRecord": MetadataState.unregister_broker,
    "BrokerRegistrationChangeRecord": MetadataState.apply_registration_change,
    "FenceBrokerRecord": MetadataState.apply_fencing,
    "UnfenceBrokerRecord": MetadataState.apply_fencing,
    "ConfigRecord": MetadataState.apply_config,
    "FeatureLevelRecord": MetadataState.apply_feature_level,
    "KRaftVersionRecord": MetadataState.apply_kraft_version,
    "VotersRecord": MetadataState.apply_voters,
    "LeaderChangeMessage": MetadataState.apply_leader_change,
}


def _new_or_old(new: tuple[int, ...] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else new


def _restamp(row: PartitionState, record: MetadataRecord) -> PartitionState:
    return msgspec.structs.replace(
        row, metadata_offset=record.offset, metadata_epoch=record.epoch, at_ns=record.timestamp_ms * _NS_PER_MS
    )


def _config(record: MetadataRecord, resource: str, name: str, value: str | None) -> ConfigChange:
    return ConfigChange(
        metadata_offset=record.offset,
        at_ns=record.timestamp_ms * _NS_PER_MS,
        resource=resource,
        name=name,
        value=value,
    )
