"""The Java programs of Ebbtide, which Janino compiles as they start.

Formats several nodes in one Java process: starting Java for each costs three quarters of the CPU time.

`FormatNodes.java` calls the release's own StorageTool for each node. Figures are in docs/decisions/jvm-start.md.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from cluster.jars.releases import Progress, ensure
from cluster.runtime.jvm import TOOL_HEAP_MB, JavaProgram, installation_of, jvm_options
from cluster.runtime.tool_command import COMPILER, ToolCommand, arguments_for
from ebbtide.errors import HarnessError
from ebbtide.java import require_java
from ebbtide.scenario.kafka_settings import KafkaSetting

_JARS = ("janino", "commons-compiler")
_HEAP_MB = 256


def compiler_jars() -> list[Path]:
    """Return the jars of the compiler. Raises `HarnessError` if Spark lacks one."""
    spark = find_spec("pyspark")
    folder = Path(spark.origin).parent / "jars" if spark is not None and spark.origin is not None else Path()
    jars = [jar for name in _JARS for jar in folder.glob(f"{name}-[0-9]*.jar")]
    if len(jars) != len(_JARS):
        raise HarnessError("the Java compiler of Spark is missing", where=str(folder), allowed=", ".join(_JARS))
    return jars


def ensure_compiler(kafka: str, progress: Progress) -> ToolCommand:
    """Return what compiles and runs a Java program that uses the clients of a release; fetches what is missing.

    The compiler is Janino, from Spark's jars. Raises `UsageError` for an unknown release, `HarnessError` when Maven,
    the network or the disk fails.
    """
    ensure([kafka], progress)
    installation = installation_of(kafka)
    archive = installation.archive()
    # The class archive is valid for a class path that begins with the release's own.
    jars = [*installation.jars, *compiler_jars()]
    return ToolCommand(
        kafka=kafka,
        executable=str(installation.java.executable),
        options=tuple(jvm_options(_HEAP_MB, archive if archive.is_file() else None)),
        class_path=tuple(map(str, jars)),
    )


_SETTINGS_SOURCE = Path(__file__).with_name("KafkaSettings.java")
_PLACES = ("node ", "topic ", "producer ")
_TIMEOUT_S = 120.0


def defined_settings(kafka: str, progress: Progress) -> list[KafkaSetting]:
    """Return the settings that a release defines; fetches its jars if they are missing.

    Raises `UsageError` for an unknown release, and `HarnessError` if the jars do not say.
    """
    tool = ensure_compiler(kafka, progress)
    lines = _output_of(tool, _SETTINGS_SOURCE, "settings they define")
    return [_setting(line, kafka) for line in lines if line.startswith(_PLACES)]


def lines_of_program(source: Path, jars: Sequence[Path], what: str, kafka: str) -> list[str]:
    """Return what a Java program prints that asks the classes in these jars; `what` it asks is for an error.

    Raises `HarnessError` if the classes do not say, as where one has moved.
    """
    options, class_path = jvm_options(_HEAP_MB, None), (*map(str, jars), *map(str, compiler_jars()))
    java = str(require_java().executable)
    tool = ToolCommand(kafka=kafka, executable=java, options=tuple(options), class_path=class_path)
    return _output_of(tool, source, what)


def _output_of(tool: ToolCommand, source: Path, what: str) -> list[str]:
    command = [tool.executable, *tool.options, "-cp", os.pathsep.join(tool.class_path)]
    command += [COMPILER, *arguments_for(source, [])]
    what, where = f"Kafka's jars do not say which {what}", f"Kafka {tool.kafka}"
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise HarnessError(what, where=where, got=f"no answer in {_TIMEOUT_S:g} s") from None
    if said.returncode:
        lines = said.stderr.strip().splitlines() or ["nothing"]
        cause = next((line for line in reversed(lines) if line.startswith("Caused by: ")), lines[-1])
        raise HarnessError(what, where=where, got=cause.removeprefix("Caused by: "))
    return said.stdout.splitlines()


def _setting(line: str, kafka: str) -> KafkaSetting:
    place, name, type_, *defaults = line.split()
    return KafkaSetting.of_line(" ".join((place, name, type_, kafka, kafka, *defaults)))


_FORMAT_SOURCE = Path(__file__).with_name("FormatNodes.java")


def program_for_all(arguments: Mapping[Path, Sequence[str]]) -> JavaProgram:
    """Return the program that formats the nodes whose logs these are, with these arguments of StorageTool."""
    words: list[str] = []
    for log, of_node in arguments.items():
        words += [str(log), str(len(of_node)), *of_node]
    compiled = tuple(arguments_for(_FORMAT_SOURCE, words))
    return JavaProgram(main=COMPILER, arguments=compiled, heap_mb=TOOL_HEAP_MB, jars=tuple(compiler_jars()))


def statuses_of(node_ids: Sequence[int], exit_code: int) -> dict[int, int]:
    """Return the exit status of each node's formatting, from that of the program for all of them."""
    if not 0 <= exit_code <= len(node_ids):
        return dict.fromkeys(node_ids, exit_code)
    return {node_id: int(number == exit_code) for number, node_id in enumerate(node_ids, 1)}
