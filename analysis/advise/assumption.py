"""A change that somebody considers: `--assume kafka=4.3.1,min.insync.replicas=2`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from packaging.version import Version

from analysis.advise.groups import TopicGroup, brokers_in_words, hosting_brokers
from analysis.advise.release import ReleaseFacts, assumed_release, unknown_release
from analysis.spec.partition import MV_ELR
from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import METADATA_VERSIONS, levels_of, newest_metadata_version
from ebbtide.releases.known_releases import ELR_VERSION, KNOWN, METADATA_VERSION, patches_of, require_release
from ebbtide.scenario.kafka_settings import settings_at
from ebbtide.snapshot.model import FLUSH_MESSAGES, MIN_ISR, UNCLEAN, ClusterSnapshot
from ebbtide.suggestions import did_you_mean

KAFKA, RF = "kafka", "replication.factor"
_NUMBERS = {RF: 7, MIN_ISR: 100, FLUSH_MESSAGES: 2**63 - 1, ELR_VERSION: 1}
_KEYS = (KAFKA, RF, MIN_ISR, UNCLEAN, FLUSH_MESSAGES, ELR_VERSION, METADATA_VERSION)
_WHERE = "--assume"
_SETTINGS: dict[str, tuple[str, Callable[[str], int | bool]]] = {
    RF: ("rf", int),
    MIN_ISR: ("min_isr", int),
    FLUSH_MESSAGES: ("flush_messages", int),
    UNCLEAN: ("unclean", lambda value: value == "true"),
}
"""What topics set: the field of their settings, and its value from the typed one."""


class Assumption(msgspec.Struct, frozen=True):
    """Values by name, checked; metadata.version as a number."""

    values: dict[str, str]

    def in_words(self) -> str:
        """Return the values as `--assume` takes them."""
        return ",".join(f"{name}={value}" for name, value in self.values.items())

    def _typed_with(self, values: Mapping[str, int]) -> str:
        """Return the option with these values, too."""
        return f"{_WHERE} {Assumption({**self.values, **{name: str(one) for name, one in values.items()}}).in_words()}"

    def release(
        self, today: ReleaseFacts | None, features: Mapping[str, int], unsaid: Collection[str] = ()
    ) -> ReleaseFacts:
        """Return the release after the change. Feature levels stay as they are unless they are assumed, too.

        `unsaid` are those that nobody said: today's release sets them.
        """
        kafka = self.values.get(KAFKA) or (today.kafka if today is not None else "")
        levels = dict(features)
        for name in (ELR_VERSION, METADATA_VERSION):
            if name in self.values:
                levels[name] = int(self.values[name])
        if today is not None and Version(kafka) < Version(today.kafka):
            _refuse_downgrade(kafka, levels.get(METADATA_VERSION, 0), is_said=METADATA_VERSION not in unsaid)
        known = levels_of(kafka) or {}
        self._check_level(kafka, known.get(METADATA_VERSION), levels)
        if levels.get(ELR_VERSION) and ELR_VERSION in self.values:
            if ELR_VERSION not in known:
                raise UsageError("this release has no ELR", where=_WHERE, got=f"Kafka {kafka}", allowed="4.0 or newer")
            if METADATA_VERSION not in self.values and levels.get(METADATA_VERSION, 0) < MV_ELR:
                # The ELR cannot be turned on below this level, so whoever turns it on raises the level first.
                levels[METADATA_VERSION] = known[METADATA_VERSION][-1]
        if today is not None and not {KAFKA, ELR_VERSION, METADATA_VERSION} & set(self.values):
            return today
        return assumed_release(kafka, levels)

    def _check_level(self, kafka: str, known: range | None, levels: Mapping[str, int]) -> None:
        """Raise `UsageError` for an assumed metadata.version that the release does not know, or without the ELR.

        `levels` are those after the change: the ELR is on if it is assumed, or if the cluster has it on today.
        """
        if METADATA_VERSION not in self.values or known is None:
            return
        level = int(self.values[METADATA_VERSION])
        if level not in known:
            raise UsageError(
                "this release does not know this metadata.version",
                where=_WHERE,
                got=f"{level_in_words(level)} with Kafka {kafka}",
                allowed=f"{level_in_words(known[0])} to {level_in_words(known[-1])}",
                next=self._typed_with({METADATA_VERSION: known[-1]}),
            )
        if levels.get(ELR_VERSION) and level < MV_ELR:
            is_assumed = ELR_VERSION in self.values
            raise UsageError(
                "Kafka turns the ELR on only from a later metadata.version on"
                if is_assumed
                else "the cluster has the ELR on, which needs a later metadata.version",
                where=_WHERE,
                got=level_in_words(level),
                allowed=f"{level_in_words(MV_ELR)} or newer",
                next=self._typed_with({METADATA_VERSION: known[-1]})
                if is_assumed
                else f"{self._typed_with({ELR_VERSION: 0})}    (with the ELR off)",
            )

    def check_factor(self, snapshot: ClusterSnapshot) -> None:
        """Raise `UsageError` if the cluster has fewer brokers than the assumed replication factor.

        A snapshot without brokers does not say how many there are.
        """
        brokers = sorted({one.id for one in snapshot.brokers} | hosting_brokers(snapshot))
        if brokers and RF in self.values and int(self.values[RF]) > len(brokers):
            raise UsageError(
                "Kafka refuses more replicas than the cluster has brokers",
                where=_WHERE,
                got=f"{RF}={self.values[RF]} with {brokers_in_words(brokers)}",
                allowed=f"1 to {len(brokers)}",
                next=f"{self._typed_with({RF: len(brokers)})}    (more replicas need more brokers first)",
            )

    def unchanged(self, today: ReleaseFacts, after: ReleaseFacts, groups: Sequence[TopicGroup]) -> list[str]:
        """Return the values, as `--assume` takes them, that the release or each group of topics has today."""
        same = {
            KAFKA: (after.kafka, after.variant) == (today.kafka, today.variant),
            # A release without the ELR has it off, as an assumed level of 0 says.
            **{
                name: after.features.get(name, 0) == today.features.get(name, 0)
                for name in (ELR_VERSION, METADATA_VERSION)
            },
        }
        for name in self.values:
            if name in _SETTINGS:
                alone = Assumption({name: self.values[name]})
                same[name] = bool(groups) and all(alone.group(group) == group for group in groups)
        return [f"{name}={value}" for name, value in self.values.items() if same[name]]

    def group(self, group: TopicGroup) -> TopicGroup:
        """Return the group after the change."""
        settings = group.settings
        changes = {field: kind(self.values[name]) for name, (field, kind) in _SETTINGS.items() if name in self.values}
        return msgspec.structs.replace(group, settings=msgspec.structs.replace(settings, **changes))


def is_of_topics(name: str) -> bool:
    """Whether topics set this value, and not the release or its feature levels."""
    return name in _SETTINGS


def _refuse_downgrade(kafka: str, level: int, *, is_said: bool) -> None:
    """Raise `UsageError` where nodes of an older release do not start with the cluster's metadata.version.

    Where nobody said that, it may be one that the older release knows, and can be assumed, too.
    """
    newest = newest_metadata_version(kafka)
    if level <= newest:
        return
    first = next((one.version for one in KNOWN if newest_metadata_version(one.version) >= level), None)
    raise UsageError(
        "no downgrade to this release is possible: it does not know the cluster's metadata.version",
        where=_WHERE,
        got=f"{KAFKA}={kafka}, which knows {METADATA_VERSION} up to {newest}; "
        + (f"the cluster has {level}" if is_said else f"no file says the cluster's, and {level} is assumed"),
        allowed=f"{KAFKA}={first} or newer" if first is not None else None,
        next=None
        if is_said
        else f"{_WHERE} {KAFKA}={kafka},{METADATA_VERSION}={newest}    (if the cluster is at this level)",
    )


def level_in_words(level: int) -> str:
    """Return a metadata.version with its name, such as `metadata.version 21 (3.9-IV0)`."""
    name = next((name for name, known in METADATA_VERSIONS.items() if known == level), None)
    return f"{METADATA_VERSION} {level}" + (f" ({name})" if name is not None else "")


def _level_from(value: str) -> int:
    """Return the level of a metadata.version, written as a number or as a name. Raises `UsageError`."""
    if value in METADATA_VERSIONS:
        return METADATA_VERSIONS[value]
    if re.fullmatch(r"[1-9][0-9]{0,2}", value):
        return int(value)
    minor = re.match(r"[0-9]+\.[0-9]+", value)
    names = [name for name in METADATA_VERSIONS if minor is not None and name.startswith(f"{minor[0]}-")]
    name = names[-1] if names else "3.9-IV0"
    level = METADATA_VERSIONS[name]
    raise UsageError(
        f"not a level of {METADATA_VERSION}",
        where=_WHERE,
        got=f"{METADATA_VERSION}={value}",
        allowed=f"the level's number such as {level}, or its name such as {name}",
        next=f"{_WHERE} {METADATA_VERSION}={level}    ({name})",
    )


def parse_assumption(text: str) -> Assumption:
    """Read `--assume`. Raises `UsageError`."""
    values: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals or not value:
            raise UsageError("not NAME=VALUE", where=_WHERE, got=repr(part), allowed=", ".join(_KEYS))
        if name in settings_at("producer").keys() - settings_at("node").keys() - settings_at("topic").keys():
            raise UsageError(
                f"{name} is a setting of producers, and not of the cluster",
                where=_WHERE,
                got=part.strip(),
                allowed=", ".join(_KEYS),
                next="ebbtide advise FILE --all    (has answers for acks=0, 1 and all)" if name == "acks" else None,
            )
        if name not in _KEYS:
            raise UsageError(
                f"nothing that can be assumed{did_you_mean(name, _KEYS)}",
                where=_WHERE,
                got=name,
                allowed=", ".join(_KEYS),
            )
        if name == KAFKA:
            if re.fullmatch(r"[0-9]+\.[0-9]+", value):
                value = max(patches_of(value), key=Version, default=f"{value}.0")
            require_release(value)
            if levels_of(value) is None or Version(value) >= Version("5"):
                raise unknown_release(value)
        elif name == UNCLEAN:
            if value not in ("true", "false"):
                raise UsageError("not a value of this config", where=_WHERE, got=part, allowed="true or false")
        elif name == METADATA_VERSION:
            value = str(_level_from(value))
        else:
            lowest = 0 if name == ELR_VERSION else 1
            if not re.fullmatch(r"[0-9]{1,19}", value) or not lowest <= int(value) <= _NUMBERS[name]:
                raise UsageError("out of range", where=_WHERE, got=part, allowed=f"{lowest} to {_NUMBERS[name]:,}")
        values[name] = value
    return Assumption(values)
