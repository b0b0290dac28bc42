"""What runs the Java clients of a release. Client processes read it, and start no node: so it imports nothing else."""

from __future__ import annotations

import msgspec


class ToolCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What runs the Java clients of one release: a Java, its options and the class path."""

    kafka: str
    executable: str
    options: tuple[str, ...]
    class_path: tuple[str, ...]
