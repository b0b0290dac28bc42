"""Compares the specification with conformance vectors, release by release.

Brokers in ISR, ELR and the reassignment lists are compared as sets, since Kafka's own order of them
means nothing; the replica list is compared in order. A vector that was executed on no release
counts for the newest.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from analysis.spec.protocol import Protocol
from analysis.spec.variants import protocol_for
from analysis.spec.vector_file import Json, Vector
from analysis.spec.vector_outcome import outcome
from ebbtide.releases.known_releases import KNOWN

NEWEST = KNOWN[-1].version
"""The release of `expected`, and of vectors that were executed on none."""

_ORDERED = ("replicas",)


class Difference(msgspec.Struct, frozen=True):
    """A field in which the specification does not do what the vector says."""

    vector: str
    layer: str
    kafka: str
    event: str
    field: str
    expected: Json
    got: Json


class Tally(msgspec.Struct, frozen=True):
    """How many vectors of a layer agree on a release."""

    layer: str
    kafka: str
    variant: str
    vectors: int
    agree: int


def releases_of(vector: Vector) -> tuple[str, ...]:
    """The releases that a vector speaks of, oldest first."""
    return tuple(sorted({*vector.verified_on, *vector.differs} or {NEWEST}, key=lambda text: version_key(text)))


def agreement(
    vectors: Iterable[Vector], kafka: str | None = None, protocol: Protocol | None = None
) -> tuple[list[Tally], list[Difference]]:
    """Return the agreement per layer and release, and every difference.

    `kafka`: of this release only. `protocol`: the variant to compare instead of the release's own.
    """
    counts: dict[tuple[str, tuple[int, ...], str], list[int]] = {}
    differences: list[Difference] = []
    for vector in vectors:
        layer = str(vector.__struct_config__.tag)
        for release in releases_of(vector):
            if kafka not in (None, release):
                continue
            found = compare(vector, release, protocol)
            differences += found
            count = counts.setdefault((layer, version_key(release), release), [0, 0])
            count[0] += 1
            count[1] += not found
    return [
        Tally(layer, release, (protocol or protocol_for(release, {})).name, total, agree)
        for (layer, _, release), (total, agree) in sorted(counts.items())
    ], differences


def compare(vector: Vector, kafka: str, protocol: Protocol | None = None) -> list[Difference]:
    """Return where the specification differs from what `vector` says of a release.

    Empty if it does not. `protocol`: the variant to compare instead of the release's own.
    """
    got = outcome(vector, protocol or protocol_for(kafka, {}))
    layer, event = str(vector.__struct_config__.tag), vector.event.type
    expected: dict[str, Json] = dict(vector.expected)
    for name, value in vector.differs.get(kafka, {}).items():
        # `after` names the fields that change, everything else is replaced.
        expected[name] = {**expected["after"], **value} if name == "after" else value
    flat_expected, flat_got = _flatten(expected), _flatten({name: got.get(name) for name in expected})
    return [
        Difference(vector.id, layer, kafka, event, name, flat_expected.get(name), flat_got.get(name))
        for name in sorted({*flat_expected, *flat_got})
        if flat_expected.get(name) != flat_got.get(name)
    ]


def _flatten(value: dict[str, Json], prefix: str = "") -> dict[str, Json]:
    """Return nested objects as dotted names.

    Lists are sorted unless their order means something.
    """
    flat: dict[str, Json] = {}
    for name, child in value.items():
        if isinstance(child, dict) and child:
            flat |= _flatten(child, f"{prefix}{name}.")
        elif isinstance(child, list) and name not in _ORDERED:
            flat[prefix + name] = sorted(child, key=repr)
        else:
            flat[prefix + name] = child
    return flat


def version_key(release: str) -> tuple[int, ...]:
    """Return a key that sorts releases oldest first."""
    return tuple(int(part) if part.isdigit() else 0 for part in release.split("."))
