"""Measures the start of a cluster: `python -m bench.cluster_start [ROUNDS]`.

Run it from a checkout, as root. Rounds alternate between three clusters of one controller and three
brokers (`--brokers`):

- as the harness runs them, each node with a namespace, a volume and a proxied network;
- the same JVMs bare: plain processes and folders of this host, each on its own loopback address;
- as the harness, but without the release's class archive, as Kafka's scripts start them.

The time runs from the first process to the last broker unfenced, without formatting. Target: the harness takes at most
1.3 times as long as the bare JVMs (`--max-ratio`); exit code 1 if a release misses it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec

from cluster.host.ledger import Ledger
from cluster.runtime.base import RuntimeSettings
from cluster.runtime.jvm import Installation, ensure_class_archive, installation_of
from cluster.runtime.local import LocalRuntime
from cluster.runtime.properties import plan_cluster
from ebbtide.errors import EbbtideError
from ebbtide.scenario.model import ClusterSpec

RELEASES = ("3.9.1", "4.3.1")
MOST = 1.3


class BareRuntime(LocalRuntime):
    """The same JVMs without namespaces, volumes and proxies.

    It waits until they are ready, as a run does.
    """

    def __init__(self, installation: Installation, settings: RuntimeSettings) -> None:
        super().__init__(installation, msgspec.structs.replace(settings, power_loss_method="truncate"))
        self._plan = plan_cluster(settings.spec, lambda node_id: f"127.0.1.{node_id}")
        self.nodes = self._plan.nodes

    def prepare(self) -> None:
        """Format the folders."""
        self._client_namespace = Path("/proc/self/ns/net")
        self._scratch.mkdir(parents=True)
        self._lay_out()

    def _start_servers(self, node_ids: Sequence[int]) -> None:
        for node_id in node_ids:
            node = self.nodes[node_id]
            self._processes[node_id] = self._child(node, self._server_program(node), node.name, None)

    def _namespace(self, node_id: int) -> Path:
        return self._client_namespace


def start_s(
    kind: type[LocalRuntime] | type[BareRuntime], installation: Installation, folder: Path, brokers: int
) -> float:
    """Return how many seconds a new cluster takes until it is ready."""
    with Ledger.open(f"bench-{folder.name}", folder) as ledger:
        spec = ClusterSpec(brokers=brokers)
        settings = RuntimeSettings(spec=spec, kafka=installation.kafka, folder=folder, ledger=ledger)
        runtime = kind(installation, settings)
        try:
            runtime.prepare()
            began = time.monotonic()
            runtime.start(tuple(runtime.nodes))
            runtime.wait_ready(tuple(runtime.nodes), 90)
            return time.monotonic() - began
        finally:
            runtime.close()


def main() -> int:
    """Measure, and print medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--kafka", default=",".join(RELEASES), help="releases (default %(default)s)")
    parser.add_argument("--brokers", type=int, default=ClusterSpec().brokers, help="of a cluster (default %(default)s)")
    parser.add_argument("--max-ratio", type=float, default=MOST, help="target (default %(default)s)")
    args = parser.parse_args()
    try:
        installations = {release: installation_of(release) for release in args.kafka.split(",")}
    except EbbtideError as error:
        parser.error(error.render())
    missed = False
    print("Kafka   harness    bare   ratio   without archive   saved")
    for release, installation in installations.items():
        ensure_class_archive(installation)
        with tempfile.TemporaryDirectory(prefix="ebbtide-start-") as folder:
            # No archive lies in an empty folder.
            without = msgspec.structs.replace(installation, folder=Path(folder))
            arms: dict[str, tuple[type[LocalRuntime] | type[BareRuntime], Installation]] = {
                "harness": (LocalRuntime, installation),
                "bare": (BareRuntime, installation),
                "plain": (LocalRuntime, without),
            }
            times: dict[str, list[float]] = {arm: [] for arm in arms}
            for number in range(args.rounds):
                for arm, (kind, jars) in arms.items():
                    place = Path(folder) / f"{arm}-{number}"
                    place.mkdir()
                    times[arm].append(start_s(kind, jars, place, args.brokers))
        ours, bare, plain = (median(times[arm]) for arm in arms)
        missed |= ours > args.max_ratio * bare
        row = f"{release:<7} {ours:>5.2f} s {bare:>5.2f} s {ours / bare:>7.2f} {plain:>15.2f} s {plain / ours:>6.2f}x"
        print(row, flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
