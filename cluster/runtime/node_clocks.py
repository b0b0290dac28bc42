"""The wall clocks of nodes, which a step can set off: a Java agent in each node's process reads an offset from a file.

The agent is `EbbtideNodeClock.java`. It is compiled when a cluster is prepared, and only for a cluster whose steps set
clocks (docs/decisions/node-clocks.md).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Mapping
from pathlib import Path

from cluster.host.children import start_child
from cluster.host.ledger import Ledger
from cluster.runtime.base import NodeInfo
from cluster.runtime.java_programs import compiler_jars
from cluster.runtime.jvm import TOOL_HEAP_MB, jvm_options, tail_of
from cluster.runtime.tool_command import COMPILER, arguments_for
from ebbtide.errors import HarnessError
from ebbtide.java import require_java

_AGENT = Path(__file__).with_name("EbbtideNodeClock.java")
_PACKER = Path(__file__).with_name("PackAgent.java")
_COMPILE_TIMEOUT_S = 60.0

_NUMBER = struct.Struct("<q")
_OFFSET_AT, _RETURNED_AT, _SIZE = 0, 8, 16


class NodeClocks:
    """The clocks of a cluster's nodes. Without `enable` before `prepare`, no node has the agent."""

    def __init__(self, nodes: Mapping[int, NodeInfo], folder: Path, ledger: Ledger) -> None:
        """`folder` is made by `prepare`, in the run's folder."""
        self._folder = folder
        self._ledger = ledger
        self._files = {node.id: folder / node.name for node in nodes.values()}
        self._jar = folder / "node-clock.jar"
        self.is_enabled = False

    def enable(self) -> None:
        """Let the nodes start with the agent; call it before `prepare`."""
        self.is_enabled = True

    def prepare(self, log: Path) -> None:
        """Compile the agent, and make the nodes' files. Raises `HarnessError`; `log` has the compiler's words."""
        if not self.is_enabled:
            return
        self._folder.mkdir(parents=True)
        for file in self._files.values():
            file.write_bytes(bytes(_SIZE))
        words = [str(_AGENT), _AGENT.stem, str(self._jar)]
        jars = os.pathsep.join(map(str, compiler_jars()))
        command = [str(require_java().executable), *jvm_options(TOOL_HEAP_MB, None), "-cp", jars, COMPILER]
        command += arguments_for(_PACKER, words)
        status = start_child(self._ledger, command, name="the compiler of the clock agent", output=log).wait(
            _COMPILE_TIMEOUT_S
        )
        if status != 0:
            raise HarnessError("the agent that sets clocks could not be compiled", where=str(log), got=tail_of(log))

    def options(self, node_id: int) -> tuple[str, ...]:
        """Return the options of the node's JVM that load the agent."""
        return (f"-javaagent:{self._jar}={self._files[node_id]}",) if self.is_enabled else ()

    def files(self, node_id: int) -> Collection[Path]:
        """Return the files that the node's process needs for it."""
        return (self._jar, self._files[node_id]) if self.is_enabled else ()

    def set(self, node_id: int, offset_ms: int) -> None:
        """Set the node's clock off the host's from now on; 0: it is right."""
        with self._files[node_id].open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), _NUMBER.pack(offset_ms), _OFFSET_AT)

    def returned_ms(self, node_id: int) -> int:
        """Return the time (Unix, in ms) that the node's clock returned last; 0: none yet."""
        with self._files[node_id].open("rb", buffering=0) as file:
            (number,) = _NUMBER.unpack(os.pread(file.fileno(), _NUMBER.size, _RETURNED_AT))
        return int(number)
