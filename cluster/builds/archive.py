"""Takes the jars out of a .tgz of Kafka, as `./gradlew releaseTarGz` makes it."""

from __future__ import annotations

import shutil
from pathlib import Path

from cluster.builds.contents import ALLOWED, NEXT
from ebbtide.untrusted.archives import ArchiveBounds, members_of

_BOUNDS = ArchiveBounds(bytes_max=1 << 30, files_max=20_000, allowed=ALLOWED, next=NEXT)
"""A distribution of Kafka has 0.2 GB."""


def unpack_jars(archive: Path, into: Path) -> None:
    """Write the jars of an archive into a folder: those of its `libs/`, or else all.

    Raises `UsageError` as `members_of` does.
    """
    with members_of(archive, _BOUNDS) as members:
        jars = [one for one in members if one.path.name.endswith(".jar")]
        of_libs = [one for one in jars if one.path.parent.name == "libs"]
        for jar in of_libs or jars:
            with jar.open() as content, (into / jar.path.name).open("wb") as file:
                shutil.copyfileobj(content, file)
