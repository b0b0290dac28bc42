"""Lists the jars of a Java process that is started without Spark's scripts: those of Spark, with three differences.

- Spark's own jars come first. Spark reads the code of a class for each step of a plan, and Java looks for it in one
  jar after the other.
- Spark's machine learning is left out. Each session that finds it gets its SQL functions, which nobody uses here.
  Registering them takes as long as the rest of the session's start.
- The jars of Janino, which compiles parts of plans, are signed. Java then verifies each class that it loads, and a
  class archive never has these classes. Copies without the signatures are kept in the cache.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from pathlib import Path

from ebbtide.errors import HarnessError
from ebbtide.places import cache_dir, is_own

_FIRST = "spark-"
_LEFT_OUT = "spark-mllib_"
_SIGNED = ("janino-", "commons-compiler-")
_SIGNATURES = (".SF", ".RSA", ".DSA", ".EC")


def class_path(spark_home: Path) -> str:
    """Return the class path; copies of signed jars are made if there are none, and the cache can be written."""
    jars = [jar for jar in (spark_home / "jars").glob("*.jar") if not jar.name.startswith(_LEFT_OUT)]
    jars.sort(key=lambda jar: (not jar.name.startswith(_FIRST), jar.name))
    return os.pathsep.join(str(_unsigned(jar) if jar.name.startswith(_SIGNED) else jar) for jar in jars)


def _unsigned(jar: Path) -> Path:
    """Return the copy of a jar without its signatures; the jar itself if there can be no copy."""
    try:
        copy = cache_dir() / "spark" / jar.name
    except HarnessError:
        return jar
    if os.pathsep in str(copy):
        return jar
    if not copy.is_file():
        with contextlib.suppress(OSError, zipfile.BadZipFile):
            copy.parent.mkdir(parents=True, exist_ok=True)
            _copy_unsigned(jar, copy)
    return copy if copy.is_file() and is_own(copy) else jar


def _copy_unsigned(jar: Path, copy: Path) -> None:
    """Copy a jar in one step: another session may do the same at once.

    A class archive is for jars of one size and time. So each copy of a jar is the same, and none is replaced.
    """
    part = copy.with_suffix(f".{os.getpid()}.part")
    try:
        with (
            part.open("wb") as file,
            zipfile.ZipFile(jar) as signed,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as unsigned,
        ):
            for entry in signed.infolist():
                if not (entry.filename.startswith("META-INF/") and entry.filename.endswith(_SIGNATURES)):
                    unsigned.writestr(entry, signed.read(entry))
            unsigned.close()
            file.flush()
            os.fsync(file.fileno())
        os.utime(part, ns=(jar.stat().st_atime_ns, jar.stat().st_mtime_ns))
        os.link(part, copy)
    finally:
        part.unlink(missing_ok=True)
