"""A change that somebody considers: `--assume kafka=4.3.1,min.insync.replicas=2`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from packaging.version import Version

from analysis.advise.groups import TopicGroup
from analysis.advise.release import ReleaseFacts, assumed_release
from analysis.spec.partition import MV_ELR
from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import ELR_VERSION, METADATA_VERSION, levels_of, newest_metadata_version
from ebbtide.releases.known_releases import KNOWN, parse_version
from ebbtide.snapshot.model import FLUSH_MESSAGES, MIN_ISR, UNCLEAN
from ebbtide.suggestions import did_you_mean

KAFKA, RF = "kafka", "replication.factor"
_NUMBERS = {RF: 7, MIN_ISR: 100, FLUSH_MESSAGES: 2**63 - 1, ELR_VERSION: 1, METADATA_VERSION: 1000}
_KEYS = (KAFKA, RF, MIN_ISR, UNCLEAN, FLUSH_MESSAGES, ELR_VERSION, METADATA_VERSION)
_WHERE = "--assume"


class Assumption(msgspec.Struct, frozen=True):
    """Values by name, as typed and checked."""

    values: dict[str, str]

    def in_words(self) -> str:
        """Return the values as they are typed."""
        return ",".join(f"{name}={value}" for name, value in self.values.items())

    def release(self, today: ReleaseFacts | None, features: Mapping[str, int]) -> ReleaseFacts:
        """Return the release after the change. Feature levels stay as they are unless they are assumed, too."""
        kafka = self.values.get(KAFKA) or (today.kafka if today is not None else "")
        levels = dict(features)
        for name in (ELR_VERSION, METADATA_VERSION):
            if name in self.values:
                levels[name] = int(self.values[name])
        if today is not None and Version(kafka) < Version(today.kafka):
            _refuse_downgrade(kafka, levels.get(METADATA_VERSION, 0))
        known = levels_of(kafka) or {}
        if levels.get(ELR_VERSION) and ELR_VERSION in self.values:
            if ELR_VERSION not in known:
                raise UsageError("this release has no ELR", where=_WHERE, got=f"Kafka {kafka}", allowed="4.0 or newer")
            if METADATA_VERSION not in self.values and levels.get(METADATA_VERSION, 0) < MV_ELR:
                # The ELR cannot be turned on below this level, so whoever turns it on raises the level first.
                levels[METADATA_VERSION] = known[METADATA_VERSION][-1]
        if today is not None and not {KAFKA, ELR_VERSION, METADATA_VERSION} & set(self.values):
            return today
        return assumed_release(kafka, levels)

    def group(self, group: TopicGroup) -> TopicGroup:
        """Return the group after the change."""
        settings = group.settings
        changes = {
            field: kind(self.values[name])
            for name, field, kind in (
                (RF, "rf", int),
                (MIN_ISR, "min_isr", int),
                (FLUSH_MESSAGES, "flush_messages", int),
                (UNCLEAN, "unclean", lambda value: value == "true"),
            )
            if name in self.values
        }
        return msgspec.structs.replace(group, settings=msgspec.structs.replace(settings, **changes))


def _refuse_downgrade(kafka: str, level: int) -> None:
    """Raise `UsageError` where nodes of an older release do not start with the cluster's metadata.version."""
    newest = newest_metadata_version(kafka)
    if level <= newest:
        return
    first = next((one.version for one in KNOWN if newest_metadata_version(one.version) >= level), None)
    raise UsageError(
        "no downgrade to this release is possible: it does not know the cluster's metadata.version",
        where=_WHERE,
        got=f"{KAFKA}={kafka}, which knows {METADATA_VERSION} up to {newest}; the cluster has {level}",
        allowed=f"{KAFKA}={first} or newer" if first is not None else None,
    )


def parse_assumption(text: str) -> Assumption:
    """Read `--assume`. Raises `UsageError`."""
    values: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals or not value:
            raise UsageError("not NAME=VALUE", where=_WHERE, got=repr(part), allowed=", ".join(_KEYS))
        if name not in _KEYS:
            raise UsageError(
                f"nothing that can be assumed{did_you_mean(name, _KEYS)}",
                where=_WHERE,
                got=name,
                allowed=", ".join(_KEYS),
            )
        if name == KAFKA:
            parse_version(value)
            if levels_of(value) is None or Version(value) >= Version("5"):
                raise UsageError(
                    "the specification does not know this release", where=_WHERE, got=value, allowed="3.3 to 4.4"
                )
        elif name == UNCLEAN:
            if value not in ("true", "false"):
                raise UsageError("not a value of this config", where=_WHERE, got=part, allowed="true or false")
        else:
            lowest = 0 if name in (ELR_VERSION, METADATA_VERSION) else 1
            if not re.fullmatch(r"[0-9]{1,19}", value) or not lowest <= int(value) <= _NUMBERS[name]:
                raise UsageError("out of range", where=_WHERE, got=part, allowed=f"{lowest} to {_NUMBERS[name]:,}")
        values[name] = value
    return Assumption(values)
