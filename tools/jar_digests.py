"""Writes the SHA-256 of every jar of the known releases: ebbtide/releases/digests.txt. `python -m tools.jar_digests`.

What is missing in the cache is fetched first, 2 GB in all. What the table has already is compared by the fetch; so
only new releases and connectors add lines, after Maven has checked the repository's checksums.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from cluster.jars import connector
from cluster.jars.digests import sha256_of
from cluster.jars.releases import ensure
from ebbtide.releases import known_jars
from ebbtide.releases.known_releases import KNOWN

TABLE = Path(known_jars.__file__).with_name(known_jars.TABLE)
_ABOUT = "# The SHA-256 of each jar, and the artifacts that have it. Made by `python -m tools.jar_digests`.\n"


def main() -> int:
    """Fetch everything, and write the table anew."""
    found: dict[str, Mapping[str, str]] = {}
    for known in KNOWN:
        print(known.version, file=sys.stderr)
        (release,) = ensure([known.version])
        found[f"kafka-{known.version}"] = release.digests
    found[connector.ARTIFACT] = _hashed(connector.connector_jars())
    TABLE.write_text(lines_of(found))
    return 0


def lines_of(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return the table of artifacts with the digest of each jar: a line for each jar, by its name."""
    artifacts: dict[tuple[str, str], list[str]] = {}
    for artifact, jars in found.items():
        for jar, digest in jars.items():
            artifacts.setdefault((jar, digest), []).append(artifact)
    lines = [f"{digest} {jar} {' '.join(sorted(names))}\n" for (jar, digest), names in sorted(artifacts.items())]
    return _ABOUT + "".join(lines)


def _hashed(jars: Iterable[Path]) -> dict[str, str]:
    return {jar.name: sha256_of(jar) for jar in jars}


if __name__ == "__main__":
    sys.exit(main())
