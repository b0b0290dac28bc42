"""A small cluster on a runtime, without a scenario: one controller and two brokers, and the run they belong to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from host_state import HostState, left_after

from cluster.host.ledger import Ledger
from cluster.jars.releases import ensure
from cluster.runtime.base import PowerLossMethod, RuntimeSettings
from cluster.runtime.choose import Choice, choose_runtime, open_runtime
from cluster.runtime.cluster import Runtime
from cluster.runtime.jvm import ensure_class_archive, installation_of
from ebbtide.scenario.model import ClusterSpec

READY_S = 60.0
CONTROLLER = 100


def choice_of(name: Literal["local", "docker"], kafka: str) -> Choice:
    """The runtime, with all that it starts from."""
    if name == "local":
        ensure([kafka])
        ensure_class_archive(installation_of(kafka))
    return choose_runtime(name, kafka, None, lambda _: None)


class Cluster:
    """A runtime and the run it belongs to; `left` says what of it is on the host."""

    def __init__(
        self,
        name: Literal["local", "docker"],
        kafka: str,
        folder: Path,
        *,
        method: PowerLossMethod = "fs-shutdown",
        **wished: str,
    ) -> None:
        self.run_id = f"live-{os.getpid()}-{os.urandom(3).hex()}"
        self.folder = folder
        choice = choice_of(name, kafka)
        self.before = HostState.now()
        self.ledger = Ledger.open(self.run_id, folder, ledgers=folder / "ledger")
        self.runtime: Runtime = open_runtime(
            choice,
            RuntimeSettings(
                spec=ClusterSpec(brokers=2, broker_properties=wished),
                kafka=kafka,
                folder=folder,
                ledger=self.ledger,
                power_loss_method=method,
            ),
        )

    def bring_up(self) -> None:
        """Prepared, started and ready."""
        self.runtime.prepare()
        self.runtime.start(list(self.runtime.nodes))
        self.runtime.wait_ready(list(self.runtime.nodes), READY_S)

    def leftovers(self) -> list[str]:
        """What of this run is on the host."""
        return HostState.now().left_since(self.before, self.run_id, str(self.folder))

    def left_after(self) -> list[str]:
        """What of this run stays on the host once it is closed."""
        return left_after(self.before, self.run_id, str(self.folder))
