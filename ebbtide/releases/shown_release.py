"""How a release is typed, and how every text shows the release of a record."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.version import InvalidVersion, Version


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


def minor_of(kafka: str) -> str:
    """Return the minor release of a release: `3.9` of 3.9.2; a text that is no release stays as it is."""
    try:
        release = Version(kafka).release
    except InvalidVersion:
        return kafka
    return ".".join(str(one) for one in release[:2])
