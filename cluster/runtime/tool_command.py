"""What starts a Java program: the runtime, and the compiler that reads it. Client processes import nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec


class ToolCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What runs the Java clients of one release: a Java, its options and the class path."""

    kafka: str
    executable: str
    options: tuple[str, ...]
    class_path: tuple[str, ...]


COMPILER = "org.codehaus.janino.SimpleCompiler"
"""The class that runs a program, with the arguments that `arguments_for` returns."""


def arguments_for(source: Path, arguments: Sequence[str]) -> list[str]:
    """Return what the compiler needs to compile a file and run the class of its name with these arguments."""
    return [str(source), source.stem, *arguments]
