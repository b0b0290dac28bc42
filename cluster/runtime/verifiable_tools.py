"""Runs Java clients of a release: Kafka's Verifiable tools, by Kafka's own developers, and Ebbtide's program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cluster.jars.releases import Progress, ensure
from cluster.jars.tools_jar import tools_jar
from cluster.runtime.java_compiler import compiler_jars
from cluster.runtime.jvm import installation_of, jvm_options
from cluster.runtime.tool_command import ToolCommand

_HEAP_MB = 256


def ensure_tools(kafka: str, progress: Progress) -> ToolCommand:
    """Return what runs the Verifiable tools of a release; fetches what is missing.

    Raises `UsageError` for an unknown release, `HarnessError` when Maven, the network or the disk fails.
    """
    return _ensure(kafka, progress, lambda: [tools_jar(kafka)])


def ensure_compiler(kafka: str, progress: Progress) -> ToolCommand:
    """Return what compiles and runs a Java program that uses the clients of a release; fetches what is missing.

    The compiler is Janino, from Spark's jars. Raises as `ensure_tools`.
    """
    return _ensure(kafka, progress, compiler_jars)


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
