"""Which brokers the controllers have registered and unfenced, read from the metadata log on their disks.

No client is asked: a node is ready when the cluster's own log says so, and under a partition too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from analysis.evidence.kraft.follower import MetadataFollower
from analysis.evidence.kraft.records import MetadataRecord
from analysis.evidence.segments import METADATA_FOLDER


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's newest registration: when the controller wrote it, and whether it is fenced now."""

    registered_ms: int
    fenced: bool


class Registrations:
    """Follows the metadata logs in `data_dirs`, keyed by controller, and believes the one furthest on."""

    def __init__(self, data_dirs: Mapping[int, Path]) -> None:
        self._logs = [_Log(data_dir / METADATA_FOLDER) for data_dir in data_dirs.values()]

    def poll(self) -> Mapping[int, Registration]:
        """The newest registration of each broker, by id."""
        for log in self._logs:
            log.poll()
        return max(self._logs, key=lambda log: log.follower.next_offset).brokers


class _Log:
    def __init__(self, folder: Path) -> None:
        self.follower = MetadataFollower(folder)
        self.brokers: dict[int, Registration] = {}

    def poll(self) -> None:
        for item in self.follower.poll():
            if isinstance(item, MetadataRecord):
                self._apply(item)

    def _apply(self, record: MetadataRecord) -> None:
        match record.name:
            case "RegisterBrokerRecord":
                broker = record.as_type(_Registered)
                self.brokers[broker.broker_id] = Registration(registered_ms=record.timestamp_ms, fenced=broker.fenced)
            case "BrokerRegistrationChangeRecord":
                change = record.as_type(_Changed)
                if change.fenced and change.broker_id in self.brokers:
                    old = self.brokers[change.broker_id]
                    self.brokers[change.broker_id] = msgspec.structs.replace(old, fenced=change.fenced > 0)
            case "UnregisterBrokerRecord":
                self.brokers.pop(record.as_type(_Unregistered).broker_id, None)


class _Registered(msgspec.Struct, rename="camel"):
    broker_id: int
    fenced: bool


class _Changed(msgspec.Struct, rename="camel"):
    """`fenced`: 1 fences, -1 unfences, 0 leaves it."""

    broker_id: int
    fenced: int


class _Unregistered(msgspec.Struct, rename="camel"):
    broker_id: int
