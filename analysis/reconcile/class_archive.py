"""An archive of Spark's loaded classes (JVM class data sharing), so that only the first start on a host is slow.

The JVM that is told to write one does so when it exits, under a name of its own, and `finish` puts it in place.
A JVM checks an archive against itself and the jars before it maps it, and goes on without when it does not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import msgspec

from harness.java import Java
from harness.places import cache_dir

_QUIET = "-Xlog:disable -Xlog:all=off"


class ClassArchive(msgspec.Struct, frozen=True, kw_only=True):
    """JVM flags. `part`: where the JVM writes the archive as it exits, which takes some seconds; null: it does not."""

    flags: str = ""
    archive: Path | None = None
    part: Path | None = None

    def finish(self) -> None:
        """Put a written archive in its place; the JVM has exited. Two that were written at once are the same."""
        if self.part is not None and self.archive is not None:
            with contextlib.suppress(OSError):
                os.replace(self.part, self.archive)


def class_archive(java: Java, jars: Path) -> ClassArchive:
    """The flags that make `java` map the archive for `jars`, or write it; none when the cache cannot be written."""
    folder = cache_dir() / "spark"
    if any(character.isspace() or character in "\"'" for character in str(folder)):
        return ClassArchive()
    key = hashlib.sha256(f"{java.executable.resolve()}\n{java.version}\n{jars}".encode()).hexdigest()[:16]
    archive = folder / f"{key}.jsa"
    if archive.is_file():
        return ClassArchive(flags=f"-XX:SharedArchiveFile={archive} {_QUIET}", archive=archive)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ClassArchive()
    part = folder / f"{key}.{os.getpid()}.part"
    return ClassArchive(flags=f"-XX:ArchiveClassesAtExit={part} {_QUIET}", archive=archive, part=part)
