"""The compiler for Ebbtide's own Java programs: Janino, one of Spark's jars. It compiles a program as it starts it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ebbtide.errors import HarnessError

COMPILER = "org.codehaus.janino.SimpleCompiler"
"""The class that runs a program: its arguments are a source file, the class in it, and the arguments of its `main`."""

_JARS = ("janino", "commons-compiler")


def compiler_jars() -> list[Path]:
    """Return the jars of the compiler. Raises `HarnessError` if Spark lacks one."""
    spark = find_spec("pyspark")
    folder = Path(spark.origin).parent / "jars" if spark is not None and spark.origin is not None else Path()
    jars = [jar for name in _JARS for jar in folder.glob(f"{name}-[0-9]*.jar")]
    if len(jars) != len(_JARS):
        raise HarnessError("the Java compiler of Spark is missing", where=str(folder), allowed=", ".join(_JARS))
    return jars
