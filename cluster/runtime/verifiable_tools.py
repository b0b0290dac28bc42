"""Runs Java clients of a release: Kafka's Verifiable tools, by Kafka's own developers, and Ebbtide's program."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import msgspec

from cluster.jars.releases import Progress, ensure
from cluster.jars.tools_jar import tools_jar
from cluster.runtime.jvm import installation_of, jvm_options
from ebbtide.errors import HarnessError

_HEAP_MB = 256
_COMPILER_JARS = ("janino", "commons-compiler")


class ToolCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What runs the Java clients of one release: a Java, its options and the class path."""

    kafka: str
    executable: str
    options: tuple[str, ...]
    class_path: tuple[str, ...]


def ensure_tools(kafka: str, progress: Progress) -> ToolCommand:
    """Return what runs the Verifiable tools of a release; fetches what is missing.

    Raises `UsageError` for an unknown release, `HarnessError` when Maven, the network or the disk fails.
    """
    return _ensure(kafka, progress, lambda: [tools_jar(kafka)])


def ensure_compiler(kafka: str, progress: Progress) -> ToolCommand:
    """Return what compiles and runs a Java program that uses the clients of a release; fetches what is missing.

    The compiler is Janino, from Spark's jars. Raises as `ensure_tools`.
    """
    return _ensure(kafka, progress, _compiler_jars)


def _ensure(kafka: str, progress: Progress, more_jars: Callable[[], list[Path]]) -> ToolCommand:
    ensure([kafka], progress)
    installation = installation_of(kafka)
    archive = installation.archive()
    # The class archive is valid for a class path that begins with the release's own.
    jars = [*installation.jars, *more_jars()]
    return ToolCommand(
        kafka=kafka,
        executable=str(installation.java.executable),
        options=tuple(jvm_options(_HEAP_MB, archive if archive.is_file() else None)),
        class_path=tuple(map(str, jars)),
    )


def _compiler_jars() -> list[Path]:
    spark = find_spec("pyspark")
    folder = Path(spark.origin).parent / "jars" if spark is not None and spark.origin is not None else Path()
    jars = [jar for name in _COMPILER_JARS for jar in folder.glob(f"{name}-[0-9]*.jar")]
    if len(jars) != len(_COMPILER_JARS):
        raise HarnessError(
            "the Java compiler of Spark is missing", where=str(folder), allowed=", ".join(_COMPILER_JARS)
        )
    return jars
