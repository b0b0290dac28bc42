"""The compiler for Ebbtide's own Java programs: Janino, one of Spark's jars. It compiles a program as it starts it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ebbtide.errors import HarnessError

COMPILER = "org.codehaus.janino.SimpleCompiler"
"""The class that runs a program, with the arguments that `arguments_for` returns."""

_JARS = ("janino", "commons-compiler")


def compiler_jars() -> list[Path]:
    """Return the jars of the compiler. Raises `HarnessError` if Spark lacks one."""
    spark = find_spec("pyspark")
    folder = Path(spark.origin).parent / "jars" if spark is not None and spark.origin is not None else Path()
    jars = [jar for name in _JARS for jar in folder.glob(f"{name}-[0-9]*.jar")]
    if len(jars) != len(_JARS):
        raise HarnessError("the Java compiler of Spark is missing", where=str(folder), allowed=", ".join(_JARS))
    return jars


def arguments_for(source: Path, arguments: Sequence[str]) -> list[str]:
    """Return what the compiler needs to compile a file and run the class of its name with these arguments."""
    return [str(source), source.stem, *arguments]
