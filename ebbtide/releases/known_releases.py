"""Which Kafka releases Ebbtide accepts, and which ones it was tried with."""

from __future__ import annotations

import re

import msgspec
from packaging.version import Version

from ebbtide.errors import UsageError

OLDEST = "3.3.0"
"""The first release whose KRaft mode is ready for production (KIP-833)."""


class KnownRelease(msgspec.Struct, frozen=True, kw_only=True):
    """A release that Ebbtide was tried with.

    `protocol`: what it does by default about lost replicas. `measured`: clusters of it ran and were judged. Others
    were fetched and start. Any release from `OLDEST` on may be named.
    """

    version: str
    protocol: str
    measured: bool = False


_PLAIN = "no ELR; joins the ISR with a stale broker epoch (before KIP-903)"
_EPOCHS = "no ELR; KIP-903"
_FROZEN = "no ELR; HW frozen under min ISR"
_PREVIEW = "ELR preview, off"
_ELR = "ELR on"

KNOWN: tuple[KnownRelease, ...] = (
    KnownRelease(version="3.3.2", protocol=_PLAIN),
    KnownRelease(version="3.4.1", protocol=_PLAIN, measured=True),
    KnownRelease(version="3.5.2", protocol=_EPOCHS, measured=True),
    KnownRelease(version="3.6.2", protocol=_EPOCHS, measured=True),
    KnownRelease(version="3.7.2", protocol=_FROZEN, measured=True),
    KnownRelease(version="3.8.1", protocol=_FROZEN, measured=True),
    KnownRelease(version="3.9.0", protocol=_FROZEN, measured=True),
    KnownRelease(version="3.9.1", protocol=_FROZEN, measured=True),
    KnownRelease(version="3.9.2", protocol=_FROZEN),
    KnownRelease(version="4.0.0", protocol=_PREVIEW, measured=True),
    KnownRelease(version="4.0.2", protocol=_PREVIEW, measured=True),
    KnownRelease(version="4.1.0", protocol=_ELR),
    KnownRelease(version="4.1.1", protocol=_ELR),
    KnownRelease(version="4.1.2", protocol=_ELR, measured=True),
    KnownRelease(version="4.2.0", protocol=_ELR),
    KnownRelease(version="4.2.1", protocol=_ELR, measured=True),
    KnownRelease(version="4.3.0", protocol=_ELR),
    KnownRelease(version="4.3.1", protocol=_ELR, measured=True),
    KnownRelease(version="4.4.0", protocol=_ELR, measured=True),
)

_KNOWN_VERSIONS = frozenset(one.version for one in KNOWN)


def is_known(version: str) -> bool:
    """Whether Ebbtide was tried with this release."""
    return version in _KNOWN_VERSIONS


def parse_version(text: str) -> Version:
    """Return `text` as a Kafka release.

    Raises `UsageError` when it is not a release, or older than `OLDEST`.
    """
    if not re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}", text):
        of_minor = [one.version for one in KNOWN if one.version.startswith(f"{text}.")]
        allowed = f"three numbers, such as {of_minor[-1] if of_minor else '4.3.1'}"
        raise UsageError("not a Kafka release", got=repr(text), allowed=allowed, next="ebbtide kafka list")
    version = Version(text)
    if version < Version(OLDEST):
        raise UsageError(
            "Kafka before 3.3 has no KRaft mode for production",
            got=text,
            allowed=f"{OLDEST} and newer",
            next="ebbtide kafka list",
        )
    return version


def next_release(version: str) -> str | None:
    """Return the newest measured patch of the next minor release that has one; None if there is none."""
    measured = [Version(one.version) for one in KNOWN if one.measured]
    later = [one for one in measured if one.release[:2] > Version(version).release[:2]]
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
    major, minor, patch = Version(version).release

    def distance(known: KnownRelease) -> tuple[int, int, int]:
        a, b, c = Version(known.version).release
        minors = abs(b - minor) if a == major else (b if a > major else -b)
        return abs(a - major), minors, abs(c - patch) if (a, b) == (major, minor) else -c

    return min(KNOWN, key=distance).version
