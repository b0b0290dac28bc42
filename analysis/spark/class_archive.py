"""Archives Spark's loaded classes (JVM CDS): only a host's first start is slow.

A JVM with the right flags writes the archive as it exits, into the scratch folder of its session,
and `finish` copies it to its place. A killed session therefore leaves no part of it. A JVM checks an
archive against itself and the jars before it maps it, and does without it if it does not fit.

Each Java and each installation of Spark has its own archive. The last used ones are kept; a
process that has mapped a removed archive keeps it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ebbtide.errors import HarnessError
from ebbtide.java import Java
from ebbtide.places import cache_dir, is_own

KEPT_MAX = 8
"""Archives take about 170 MB each."""
_PART_MAX_S = 3600.0
"""A copy takes a second; an older part was left by a session that was killed meanwhile."""
_QUIET = "-Xlog:disable -Xlog:all=off"


class ClassArchive(msgspec.Struct, frozen=True, kw_only=True):
    """JVM flags for the archive.

    `part`: where the JVM writes the archive as it exits, which takes some seconds; null: it does
    not.
    """

    flags: str = ""
    archive: Path | None = None
    part: Path | None = None

    def finish(self) -> None:
        """Copy a written archive to its place, and remove those used the longest ago.

        The JVM has exited. Two archives that were written at once are the same.
        """
        if self.part is not None and self.archive is not None:
            with contextlib.suppress(OSError):
                copy = self.archive.with_suffix(f".{os.getpid()}.part")
                shutil.copyfile(self.part, copy)
                os.replace(copy, self.archive)
                _prune(self.archive.parent)


def _jars_of(class_path: str) -> Iterator[str]:
    """Yield each part of a class path, and what a JVM compares of its jars: it maps no archive of other ones.

    A folder stands for the jars in it.
    """
    for part in class_path.split(os.pathsep):
        yield part
        path = Path(part)
        for jar in sorted(path.glob("*.jar")) if path.is_dir() else [path]:
            with contextlib.suppress(OSError):
                found = jar.stat()
                yield f"{jar.name} {found.st_size} {found.st_mtime_ns}"


def _prune(folder: Path) -> None:
    """Remove the archives used the longest ago.

    Another process may do the same at once.
    """
    archives = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    left = [part for part in folder.glob("*.part") if part.stat().st_mtime < time.time() - _PART_MAX_S]
    for path in (*archives[KEPT_MAX:], *left):
        path.unlink(missing_ok=True)


def class_archive(java: Java, class_path: str, scratch: Path, *, writes: bool = True) -> ClassArchive:
    """Return the flags that make `java` map the archive for a class path, or with `writes` write it into `scratch`.

    No flags when there is no cache, or it cannot be written.
    """
    try:
        folder = cache_dir() / "spark"
    except HarnessError:
        return ClassArchive()
    if any(character.isspace() or character in "\"'" for character in f"{folder}{scratch}"):
        return ClassArchive()
    jars = "\n".join(_jars_of(class_path))
    key = hashlib.sha256(f"{java.executable.resolve()}\n{java.version}\n{jars}".encode()).hexdigest()[:16]
    archive = folder / f"{key}.jsa"
    if archive.is_file():
        if not is_own(archive):
            return ClassArchive()
        with contextlib.suppress(OSError):  # it may be another user's, or on a read-only medium
            os.utime(archive)
        return ClassArchive(flags=f"-XX:SharedArchiveFile={archive} {_QUIET}", archive=archive)
    if not writes:
        return ClassArchive()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ClassArchive()
    if not os.access(folder, os.W_OK):
        return ClassArchive()
    part = scratch / "classes.jsa"
    return ClassArchive(flags=f"-XX:ArchiveClassesAtExit={part} {_QUIET}", archive=archive, part=part)
