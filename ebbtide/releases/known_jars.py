"""The SHA-256 of every jar that a known artifact and its dependencies consist of.

`digests.txt` is in the project, so that a repository cannot change a jar of a known release unseen. A line has the
digest, the jar, and the artifacts that have it. `python -m tools.jar_digests` writes the file.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

from ebbtide.releases.builds import name_of_build
from ebbtide.releases.known_releases import KNOWN

TABLE = "digests.txt"


@functools.cache
def known_digests() -> Mapping[str, Mapping[str, str]]:
    """Return the digests by artifact (`kafka-4.3.1`) and name of the jar."""
    table: dict[str, dict[str, str]] = {}
    for line in resources.files("ebbtide.releases").joinpath(TABLE).read_text().splitlines():
        if not line.startswith("#"):
            digest, jar, *artifacts = line.split()
            for artifact in artifacts:
                table.setdefault(artifact, {})[jar] = digest
    return table


def has_jars_of_release(build: str) -> bool:
    """Whether the name of a build is that of exactly the jars of a known release."""
    return build in _builds_like_releases()


@functools.cache
def _builds_like_releases() -> frozenset[str]:
    return frozenset(name_of_build(known.version, known_digests()[f"kafka-{known.version}"]) for known in KNOWN)
