"""An archive of Spark's loaded classes (JVM class data sharing), so that only the first start on a host is slow.

The JVM that is told to write one does so when it exits, to a name of its own. A later start takes a finished
one over under the name that every start looks for. A JVM checks an archive against itself and the jars before
it maps it, and goes on without when it does not fit.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import msgspec

from harness.java import Java
from harness.places import cache_dir

_QUIET = "-Xlog:disable -Xlog:all=off"
_SETTLED_S = 30.0
"""An archive is written within seconds: one that has not changed for this long is finished, or was given up."""

_CLAIM_S = 3600.0
"""How long a JVM that was told to write an archive is given to end, before another is told to."""


class ClassArchive(msgspec.Struct, frozen=True, kw_only=True):
    """JVM flags; `written`: the JVM goes on writing the archive for some seconds after it was told to end."""

    flags: str = ""
    written: bool = False


def class_archive(java: Java, jars: Path) -> ClassArchive:
    """The flags that make `java` map the archive for `jars`, or write it; none when the cache cannot be written."""
    folder = cache_dir() / "spark"
    if any(character.isspace() or character in "\"'" for character in str(folder)):
        return ClassArchive()
    key = hashlib.sha256(f"{java.executable.resolve()}\n{java.version}\n{jars}".encode()).hexdigest()[:16]
    archive = folder / f"{key}.jsa"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not archive.is_file():
            _take_over(folder, key, archive)
        if archive.is_file():
            return ClassArchive(flags=f"-XX:SharedArchiveFile={archive} {_QUIET}")
        if not _claim(folder / f"{key}.claim"):
            return ClassArchive()
    except OSError:
        return ClassArchive()
    return ClassArchive(flags=f"-XX:ArchiveClassesAtExit={folder / f'{key}.{os.getpid()}.new'} {_QUIET}", written=True)


def _take_over(folder: Path, key: str, archive: Path) -> None:
    for written in sorted(folder.glob(f"{key}.*.new")):
        if time.time() - written.stat().st_mtime > _SETTLED_S:
            os.replace(written, archive)


def _claim(path: Path) -> bool:
    """Whether this process is the one whose JVM writes the archive: hundreds of MiB are not written twice."""
    try:
        if time.time() - path.stat().st_mtime > _CLAIM_S:
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
