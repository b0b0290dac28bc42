"""The docker runtime: every node is a container on the same switch as local nodes.

Volumes, addresses, cuts, clients and proofs are those of the local runtime (docs/decisions/docker-network.md). Only
the node's JVM and its root file system come from an image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.host.containers import connect
from cluster.images.find import Image, find_image
from cluster.runtime.base import NodeProcess, RuntimeSettings
from cluster.runtime.cluster import FORMAT_TIMEOUT_S, Runtime
from cluster.runtime.docker_node import ContainerProcess, NodeContainer, Task
from ebbtide.errors import HarnessError
from ebbtide.record.files import LOGS_DIR

if TYPE_CHECKING:
    import docker

REQUEST_TIMEOUT_S = 30
"""The timeout of a request to the daemon; starting a container takes half a second."""


class DockerRuntime(Runtime):
    """Nodes run in containers of the image of their release.

    Each node begins with `image`, which must hold release `kafka`.
    """

    name = "docker"

    def __init__(self, image: Image, settings: RuntimeSettings) -> None:
        super().__init__(settings)
        self._images = {settings.kafka: image}
        self._client: docker.DockerClient | None = None
        self._containers: dict[int, NodeContainer] = {}
        self._made_for: dict[int, str] = {}

    def require_release(self, kafka: str) -> None:
        """Raise `HarnessError` if the daemon has no image of the release."""
        if kafka not in self._images:
            image = find_image(self._connect(), kafka)
            if image is None:
                raise HarnessError(f"no image of Kafka {kafka}", next=f"ebbtide kafka image build {kafka}")
            self._images[kafka] = image

    def _make_node_places(self) -> None:
        self._connect()

    def _connect(self) -> docker.DockerClient:
        if self._client is None:
            self._client = connect()
            self._client.api.timeout = REQUEST_TIMEOUT_S
        return self._client

    def _run_formatting(self, node_ids: Sequence[int]) -> Mapping[int, int]:
        self._create([node_id for node_id in node_ids if node_id not in self._containers])
        started = self._start(node_ids, "format")
        return {node_id: tool.wait(FORMAT_TIMEOUT_S) for node_id, tool in started.items()}

    def _start_servers(self, node_ids: Sequence[int]) -> None:
        outdated = [node_id for node_id in node_ids if self._made_for[node_id] != self.releases[node_id]]
        for node_id in outdated:
            self._containers.pop(node_id).remove()
        self._create(outdated)
        self._processes.update(self._start(node_ids, "run"))

    def _namespace(self, node_id: int) -> Path:
        return _namespace_of(self._processes[node_id])

    def _create(self, node_ids: Sequence[int]) -> None:
        """Make the containers, all at once, since the daemon is slow for each."""
        assert self._client is not None
        logs = self._folder / LOGS_DIR
        logs.mkdir(exist_ok=True)
        with ThreadPoolExecutor(len(self.nodes)) as several:
            made = []
            for node_id in node_ids:
                node = self.nodes[node_id]
                container = NodeContainer(self._client, self._ledger, node, self._cluster / "gates")
                self._containers[node_id], self._made_for[node_id] = container, self.releases[node_id]
                made.append(
                    several.submit(
                        container.create,
                        self._images[self.releases[node_id]],
                        self.releases[node_id],
                        {"format": self._format_program(node), "run": self._server_program(node)},
                        log=self.log_file(node_id),
                        folders=[
                            *self._disks.folders(node_id),
                            *self.clocks.files(node_id),
                            self._properties_file(node),
                            logs,
                        ],
                    )
                )
            for one in made:
                one.result()

    def _start(self, node_ids: Sequence[int], task: Task) -> dict[int, ContainerProcess]:
        with ThreadPoolExecutor(len(self.nodes)) as several:
            starting = {node_id: several.submit(self._containers[node_id].start) for node_id in node_ids}
        started = {node_id: self._containers[node_id].adopt(*start.result()) for node_id, start in starting.items()}
        for node_id, process in started.items():
            for data_dir in self.data_dirs(node_id):
                self._containers[node_id].check_sees(data_dir, process.pid)
            if task == "run":
                self.network.attach(node_id, _namespace_of(process))
        if task == "run":
            self.wire.open({node_id: _namespace_of(process) for node_id, process in started.items()})
        for node_id, process in started.items():
            self._containers[node_id].open_gate(task, process)
        return started


def _namespace_of(process: NodeProcess) -> Path:
    return Path(f"/proc/{process.pid}/ns/net")
