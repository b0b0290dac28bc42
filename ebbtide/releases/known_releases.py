"""The Kafka releases: a row for each one that Ebbtide was tried with, and which others it accepts."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

import msgspec
from packaging.version import InvalidVersion, Version

from ebbtide.errors import UsageError
from ebbtide.releases.builds import VERSION, is_build, names_jars, number_of, path_hint

OLDEST = "3.3.0"
"""The first release whose KRaft mode is ready for production (KIP-833)."""


class KnownRelease(msgspec.Struct, frozen=True):
    """A release that Ebbtide was tried with: what it is called, what it does, and the features that it has.

    - `variant`: the name of its protocol in the specification.
    - `metadata_version` and `features`: the newest level of each feature that is ready for production. Other levels
      need `unstable.feature.versions.enable`. They are from the release's own `Feature` (3.8 and 3.9: `Features`),
      `MetadataVersion` and `KRaftVersion`.
    - `measured`: clusters of it ran and were judged. Others were fetched and start.
    - `is_current`: scenarios that name `@current` run on it.

    Any release from `OLDEST` on may be named.
    """

    version: str
    variant: str
    metadata_version: int
    features: Mapping[str, int] = {}
    measured: bool = False
    is_current: bool = False

    @property
    def protocol(self) -> str:
        """What the release does by default about lost replicas, in words."""
        return _PROTOCOL_OF[self.variant]

    @property
    def minor(self) -> tuple[int, int]:
        """The minor release, such as (4, 3)."""
        return minor_number_of(self.version)


_PROTOCOL_OF = {
    "kraft": "no ELR; joins the ISR with a stale broker epoch (before KIP-903)",
    **dict.fromkeys(("kip903", "kip903_36"), "no ELR; KIP-903"),
    **dict.fromkeys(("strict_min_isr", "strict_min_isr_38", "strict_min_isr_39"), "no ELR; HW frozen under min ISR"),
    "elr_40": "ELR preview, off",
    **dict.fromkeys(("elr_410", "elr_41", "elr_43"), "ELR on"),
}

METADATA_VERSION = "metadata.version"
ELR_VERSION = "eligible.leader.replicas.version"
KRAFT_VERSION = "kraft.version"

# A static quorum, as `properties_of` sets it up, is kraft.version 0.
_IN_3_9 = {KRAFT_VERSION: 0, "transaction.version": 0}
_IN_4_0 = {KRAFT_VERSION: 0, "transaction.version": 2, "group.version": 1, ELR_VERSION: 1}
_IN_4_1 = {**_IN_4_0, "share.version": 1, "streams.version": 0}
_IN_4_2 = {**_IN_4_0, "share.version": 1, "streams.version": 1}
_IN_4_4 = {**_IN_4_0, "share.version": 2, "streams.version": 1}

KNOWN: tuple[KnownRelease, ...] = (
    KnownRelease("3.3.2", "kraft", 7),
    KnownRelease("3.4.1", "kraft", 8, measured=True),
    KnownRelease("3.5.1", "kip903", 11),
    KnownRelease("3.5.2", "kip903", 11, measured=True),
    KnownRelease("3.6.2", "kip903_36", 14, measured=True),
    KnownRelease("3.7.2", "strict_min_isr", 19, measured=True),
    KnownRelease("3.8.1", "strict_min_isr_38", 20, measured=True),
    KnownRelease("3.9.0", "strict_min_isr_39", 21, _IN_3_9, measured=True),
    KnownRelease("3.9.1", "strict_min_isr_39", 21, _IN_3_9, measured=True),
    KnownRelease("3.9.2", "strict_min_isr_39", 21, _IN_3_9),
    KnownRelease("4.0.0", "elr_40", 25, _IN_4_0, measured=True),
    KnownRelease("4.0.2", "elr_40", 25, _IN_4_0, measured=True),
    KnownRelease("4.1.0", "elr_410", 27, _IN_4_1),
    KnownRelease("4.1.1", "elr_41", 27, _IN_4_1),
    KnownRelease("4.1.2", "elr_41", 27, _IN_4_1, measured=True),
    KnownRelease("4.2.0", "elr_41", 29, _IN_4_2),
    KnownRelease("4.2.1", "elr_41", 29, _IN_4_2, measured=True),
    KnownRelease("4.3.0", "elr_43", 30, _IN_4_2),
    KnownRelease("4.3.1", "elr_43", 30, _IN_4_2, measured=True, is_current=True),
    KnownRelease("4.4.0", "elr_43", 33, _IN_4_4, measured=True, is_current=True),
)
"""The oldest first. All patches of a minor release have the same features."""

CURRENT = "@current"
"""Stands in a scenario for the releases whose row says `is_current`."""

_KNOWN_VERSIONS = frozenset(one.version for one in KNOWN)


def with_current_releases(raw: dict[str, object]) -> dict[str, object]:
    """Return a decoded scenario in whose `kafka` the current releases stand for `@current`."""
    named = raw.get("kafka")
    if not isinstance(named, list) or CURRENT not in named:
        return raw
    at = named.index(CURRENT)
    current = [known.version for known in KNOWN if known.is_current and known.version not in named]
    return {**raw, "kafka": [*named[:at], *current, *named[at + 1 :]]}


def version_of(kafka: str) -> Version:
    """Return a release as one that compares; a build compares by its three numbers."""
    return Version(number_of(kafka))


def age_of(kafka: str) -> tuple[Version, str]:
    """Return what sorts releases and builds: the oldest first, and a release before builds of its numbers."""
    return version_of(kafka), kafka


def minor_number_of(kafka: str) -> tuple[int, int]:
    """Return the minor release of a release: (4, 3) of 4.3.1 and of 4.3."""
    major, minor = version_of(kafka).release[:2]
    return major, minor


@functools.cache
def known_like(kafka: str) -> KnownRelease | None:
    """Return the known release that says what `kafka` does: the newest patch up to it, or else the oldest patch.

    A release that is newer than all known ones is taken for the newest of its major. None: there is nothing like it.
    """
    version = version_of(kafka)
    patches = [one for one in KNOWN if one.minor == version.release[:2]]
    earlier = [one for one in KNOWN if Version(one.version) <= version and one.minor[0] == version.release[0]]
    if patches and not (earlier and earlier[-1] in patches):
        return patches[0]
    return earlier[-1] if earlier else None


def judged_as(kafka: str) -> KnownRelease:
    """Return the known release whose rules judge `kafka`: the one like it, or else the newest or the oldest."""
    return known_like(kafka) or (KNOWN[-1] if version_of(kafka) > Version(KNOWN[-1].version) else KNOWN[0])


def is_known(version: str) -> bool:
    """Whether Ebbtide was tried with this release."""
    return version in _KNOWN_VERSIONS


def parse_version(text: str) -> Version:
    """Return `text`, a Kafka release or the name of a build, as a version that compares.

    Raises `UsageError` when it is neither, or older than `OLDEST`.
    """
    if not is_build(text) and not re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}", text):
        of_minor = [one.version for one in KNOWN if one.version.startswith(f"{text}.")]
        allowed = f"three numbers, such as {of_minor[-1] if of_minor else KNOWN[-1].version}"
        if "@" in text:
            allowed = "the whole name of a build, as `ebbtide kafka list` has it"
        next_ = path_hint(text) or "ebbtide kafka list"
        raise UsageError("not a Kafka release", got=repr(text), allowed=allowed, next=next_)
    version = version_of(text)
    if version < Version(OLDEST):
        raise UsageError(
            "Kafka before 3.3 has no KRaft mode for production",
            got=text,
            allowed=f"{OLDEST} and newer",
            next="ebbtide kafka list",
        )
    return version


def require_release(text: str) -> None:
    """Raise `UsageError` unless the text is a Kafka release: for what reads no jars, and knows releases only."""
    if is_build(text) or names_jars(text):
        numbers = VERSION.match(text)
        nearest = KNOWN[-1].version if numbers is None else judged_as(numbers[1]).version
        allowed = f"a release; {'name the nearest, such as' if numbers is None else 'the nearest is'} {nearest}"
        raise UsageError("a build cannot be named here", got=text, allowed=allowed)
    parse_version(text)


def next_release(version: str) -> str | None:
    """Return the newest measured patch of the next minor release that has one; None if there is none."""
    measured = [Version(one.version) for one in KNOWN if one.measured]
    later = [one for one in measured if one.release[:2] > version_of(version).release[:2]]
    if not later:
        return None
    minor = min(one.release[:2] for one in later)
    return str(max(one for one in later if one.release[:2] == minor))


def published_releases(near: str) -> str:
    """Return which releases may be named, as an error says it that got `near` instead."""
    return f"a published release from {OLDEST} on; the nearest known is {nearest_release(near)}"


def nearest_release(version: str) -> str:
    """Return the known release nearest to `version` by major, minor and patch.

    For another major it is the nearer one of its newest and its oldest release, for another minor its newest patch.
    """
    major, minor, patch = version_of(version).release

    def distance(known: KnownRelease) -> tuple[int, int, int]:
        a, b, c = Version(known.version).release
        minors = abs(b - minor) if a == major else (b if a > major else -b)
        return abs(a - major), minors, abs(c - patch) if (a, b) == (major, minor) else -c

    return min(KNOWN, key=distance).version


def minor_release_of(newest_supported: int) -> str | None:
    """Return the minor release, such as 4.3, whose newest metadata.version that is; None if unknown.

    Every minor release has a newest level of its own. A broker that accepts unstable levels
    (`unstable.feature.versions.enable`) may show that of a later release.
    """
    minors = {known.metadata_version: known.minor for known in KNOWN}
    return None if newest_supported not in minors else "{}.{}".format(*minors[newest_supported])


def patches_of(minor: str) -> tuple[str, ...]:
    """Return the known releases of a minor release, the oldest first."""
    return tuple(known.version for known in KNOWN if known.minor == minor_number_of(minor))


def spell_release(kafka: str, levels: Mapping[str, int]) -> str:
    """Return the release as it is typed: `4.0.2:eligible.leader.replicas.version=1`."""
    features = "+".join(f"{name}={level}" for name, level in sorted(levels.items()))
    return f"{kafka}:{features}" if features else kafka


def shown_release(kafka: str, *, is_assumed: bool = False, levels: Mapping[str, int] | None = None) -> str:
    """Return a record's release in words, with the feature levels that its scenario asked for.

    No request asks a broker for its patch, so a watch assumes one. The text then says what is known, and what the
    judge takes it for: `3.9, patch not known, judged as 3.9.2`.
    """
    if not kafka:
        return "unknown"
    if is_assumed:
        return f"{minor_of(kafka)}, patch not known, judged as {kafka}"
    return spell_release(kafka, levels or {})


def shown_path(releases: Sequence[str], *, is_assumed: bool, levels: Mapping[str, int]) -> str:
    """Return the releases that a cluster ran, one after the other, in words: `3.9.1 then 4.3.1`."""
    first, *later = releases
    return " then ".join((shown_release(first, is_assumed=is_assumed, levels=levels), *later))


def minor_of(kafka: str) -> str:
    """Return the minor release of a release: `3.9` of 3.9.2; a text that is no release stays as it is."""
    try:
        release = version_of(kafka).release
    except InvalidVersion:
        return kafka
    return ".".join(str(one) for one in release[:2])
