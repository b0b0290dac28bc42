"""Formats several nodes in one Java process: starting Java for each costs three quarters of the CPU time.

`FormatNodes.java` calls the release's own StorageTool for each node. Figures are in docs/decisions/jvm-start.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.runtime.java_compiler import COMPILER, arguments_for, compiler_jars
from cluster.runtime.jvm import TOOL_HEAP_MB, JavaProgram

_SOURCE = Path(__file__).with_name("FormatNodes.java")


def program_for_all(arguments: Mapping[Path, Sequence[str]]) -> JavaProgram:
    """Return the program that formats the nodes whose logs these are, with these arguments of StorageTool."""
    words: list[str] = []
    for log, of_node in arguments.items():
        words += [str(log), str(len(of_node)), *of_node]
    compiled = tuple(arguments_for(_SOURCE, words))
    return JavaProgram(main=COMPILER, arguments=compiled, heap_mb=TOOL_HEAP_MB, jars=tuple(compiler_jars()))


def statuses_of(node_ids: Sequence[int], exit_code: int) -> dict[int, int]:
    """Return the exit status of each node's formatting, from that of the program for all of them."""
    if not 0 <= exit_code <= len(node_ids):
        return dict.fromkeys(node_ids, exit_code)
    return {node_id: int(number == exit_code) for number, node_id in enumerate(node_ids, 1)}
