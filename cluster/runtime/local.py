"""The local runtime: every node is a `java` child of the harness, without Docker.

Each node is in a network namespace of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.host.children import Child, start_child
from cluster.runtime.base import NodeInfo, RuntimeSettings
from cluster.runtime.cluster import FORMAT_TIMEOUT_S, Runtime
from cluster.runtime.java_programs import program_for_all, statuses_of
from cluster.runtime.jvm import Installation, JavaProgram, installation_of, java_command


class LocalRuntime(Runtime):
    """Nodes run from the jars of their release with this host's Java; each begins with `installation`."""

    name = "local"

    def __init__(self, installation: Installation, settings: RuntimeSettings) -> None:
        super().__init__(settings)
        self._installations = {installation.kafka: installation}
        self._namespaces: dict[int, Path] = {}

    def require_release(self, kafka: str) -> None:
        """Raise `HarnessError` if the release was not fetched."""
        if kafka not in self._installations:
            self._installations[kafka] = installation_of(kafka)

    def _make_node_places(self) -> None:
        self._scratch.mkdir(parents=True)
        self._namespaces = {node_id: self.network.add_namespace(node_id) for node_id in self.nodes}

    def _run_formatting(self, node_ids: Sequence[int]) -> Mapping[int, int]:
        of_release: dict[str, list[NodeInfo]] = {}
        for node_id in node_ids:
            of_release.setdefault(self.releases[node_id], []).append(self.nodes[node_id])
        statuses: dict[int, int] = {}
        for nodes in of_release.values():
            first, *others = nodes
            program = self._format_program(first)
            if others:
                program = program_for_all({self.log_file(one.id): self._format_program(one).arguments for one in nodes})
            tool = self._child(first, program, f"format of {first.name}" + " and others" * bool(others), None)
            statuses |= statuses_of([one.id for one in nodes], tool.wait(FORMAT_TIMEOUT_S))
        return statuses

    def _start_servers(self, node_ids: Sequence[int]) -> None:
        self.wire.open({node_id: self._namespaces[node_id] for node_id in node_ids})
        for node_id in node_ids:
            node = self.nodes[node_id]
            self._processes[node_id] = self._child(
                node, self._server_program(node), node.name, self._namespaces[node_id]
            )

    def _namespace(self, node_id: int) -> Path:
        return self._namespaces[node_id]

    @property
    def _scratch(self) -> Path:
        """Where JVMs unpack native libraries (lz4, snappy, zstd).

        A killed JVM leaves them behind.
        """
        return self._cluster / "tmp"

    def _child(self, node: NodeInfo, program: JavaProgram, name: str, namespace: Path | None) -> Child:
        options = list(program.options)
        # Libraries cannot be loaded from a noexec file system.
        if not os.statvfs(self._scratch).f_flag & os.ST_NOEXEC:
            options.append(f"-Djava.io.tmpdir={self._scratch}")
        command = java_command(
            self._installations[self.releases[node.id]],
            program.main,
            program.arguments,
            heap_mb=program.heap_mb,
            options=options,
            jars=program.jars,
        )
        return start_child(self._ledger, command, name=name, output=self.log_file(node.id), namespace=namespace)
