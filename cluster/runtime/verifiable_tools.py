"""Runs Kafka's Verifiable tools of a release, which are clients written by Kafka's own developers."""

from __future__ import annotations

import msgspec

from cluster.jars.releases import Progress, ensure
from cluster.jars.tools_jar import tools_jar
from cluster.runtime.jvm import installation_of, jvm_options

_HEAP_MB = 256


class ToolCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What runs the tools of one release: a Java, its options and the class path."""

    kafka: str
    executable: str
    options: tuple[str, ...]
    class_path: tuple[str, ...]


def ensure_tools(kafka: str, progress: Progress) -> ToolCommand:
    """Return what runs the Verifiable tools of a release; fetches what is missing.

    Raises `UsageError` for an unknown release, `HarnessError` when Maven, the network or the disk fails.
    """
    ensure([kafka], progress)
    installation = installation_of(kafka)
    archive = installation.archive()
    # The class archive is valid for a class path that begins with the release's own.
    jars = [*installation.jars, tools_jar(kafka)]
    return ToolCommand(
        kafka=kafka,
        executable=str(installation.java.executable),
        options=tuple(jvm_options(_HEAP_MB, archive if archive.is_file() else None)),
        class_path=tuple(map(str, jars)),
    )
