"""Finds the Java that runs Kafka and Spark.

It looks in JAVA_HOME, then on PATH, as Maven and Spark do.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import msgspec

from ebbtide.errors import HarnessError

MINIMUM_MAJOR = 17
"""Spark 4 and brokers of Kafka 4.x (KIP-1013) need Java 17; every release from 3.3 on runs with it too."""

INSTALL = "apt-get install --no-install-recommends default-jre-headless    (Java 17 or newer)"


class Java(msgspec.Struct, frozen=True, kw_only=True):
    """One Java runtime.

    `version` is what it prints (`17.0.15`, `21-ea`), `major` its feature release.
    """

    executable: Path
    version: str
    major: int


def find_java() -> Java | None:
    """Return the Java of JAVA_HOME, else the one on PATH; None if there is no Java.

    Raises `HarnessError` if JAVA_HOME has no Java, or if the Java does not print its version.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        executable = Path(home, "bin", "java")
        if not os.access(executable, os.X_OK):
            raise HarnessError(
                "JAVA_HOME is not a Java installation",
                where="environment variable JAVA_HOME",
                got=home,
                allowed="a folder with bin/java in it",
                next="unset JAVA_HOME    (then the java on PATH is used)",
            )
    else:
        on_path = shutil.which("java")
        if on_path is None:
            return None
        executable = Path(on_path)
    return _identify(executable)


def require_java(minimum: int = MINIMUM_MAJOR) -> Java:
    """Return the Java to use.

    Raises `HarnessError` if it is missing or older than `minimum`.
    """
    java = find_java()
    if java is None:
        raise HarnessError("this host has no Java", allowed=f"Java {minimum} or newer on PATH", next=INSTALL)
    if java.major < minimum:
        raise HarnessError(
            "the Java on this host is too old",
            where=str(java.executable),
            got=java.version,
            allowed=f"{minimum} or newer",
            next=INSTALL,
        )
    return java


@functools.cache
def _identify(executable: Path) -> Java:
    try:
        answer = subprocess.run(
            [str(executable), "-version"], capture_output=True, text=True, errors="replace", timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError("Java does not start", where=str(executable), got=str(error), next=INSTALL) from None
    version = re.search(r'version "([^"]+)"', answer.stderr)
    number = re.match(r"(?:1\.)?(\d+)", version[1]) if version else None
    if version is None or number is None:
        said = (answer.stderr.strip() or f"exit code {answer.returncode}").splitlines()[-1]
        raise HarnessError("Java does not print its version", where=f"{executable} -version", got=said, next=INSTALL)
    return Java(executable=executable, version=version[1], major=int(number[1]))
