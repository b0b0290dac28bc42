"""Makes Kafka's properties for a node from the scenario's cluster.

Every setting that is not obvious has its reason. Settings that are *not* made matter as much: log.flush.* and
everything else that decides what survives a power loss stays as Kafka ships it, since that is what is being tested.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from cluster.runtime.base import NodeInfo
from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import levels_of, metadata_version_name, uses_metadata_version_name
from ebbtide.releases.known_releases import METADATA_VERSION
from ebbtide.scenario.kafka_settings import REFERENCE, RefusedByKafka, refused_kind
from ebbtide.scenario.model import ClusterSpec
from ebbtide.scenario.words import FIRST_CONTROLLER

TOOL = "kafka.tools.StorageTool"


def cluster_id(run_id: str) -> str:
    """Return a cluster id for a run: 16 bytes in URL-safe base64.

    It is the same for every node.
    """
    return _id_of(run_id)


def directory_id(run_id: str, node_id: int) -> str:
    """Return the directory id of the first disk of a controller that is a voter from the start."""
    return _id_of(f"{run_id}/{node_id}")


def _id_of(seed: str) -> str:
    salt = 0
    while True:
        digest = hashlib.md5(f"{seed}/{salt}".encode(), usedforsecurity=False).digest()
        text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        # StorageTool would read a leading dash as an option.
        if not text.startswith("-"):
            return text
        salt += 1


def format_arguments(
    kafka: str, cluster: str, properties_file: str, features: Mapping[str, int], quorum: Sequence[str] = ()
) -> list[str]:
    """Return StorageTool's arguments for release `kafka` and the levels `features`.

    A level of 0 of a feature that the release does not have is the default anyway, and is left out. `quorum`: the
    arguments that a dynamic quorum needs. Raises `UsageError` for a metadata version that the release does not know.
    """
    known = levels_of(kafka)
    words = ["format", "--cluster-id", cluster, "--config", properties_file, *quorum]
    for name, level in sorted(features.items()):
        if level == 0 and known is not None and name not in known:
            continue
        if name == METADATA_VERSION and uses_metadata_version_name(kafka):
            words += ["--release-version", metadata_version_name(level, kafka)]
        else:
            words += ["--feature", f"{name}={level}"]
    return words


BROKER_PORT = 9092
CONTROLLER_PORT = 9093
PUBLISHED_PORT = 9094
"""The listener of a broker that clients on the host are led to."""

_VALUES = "a value that this release takes"
_REFUSAL = re.compile(r"Invalid value .* for configuration (?P<name>[^\s:]+): (?P<why>.+)")


class ClusterPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the properties: the scenario's cluster and its nodes.

    `published`: by broker, the address on the host that leads to its listener for clients there.
    """

    spec: ClusterSpec
    nodes: Mapping[int, NodeInfo]
    published: Mapping[int, str] = {}

    @property
    def controllers(self) -> tuple[NodeInfo, ...]:
        """The controllers, voters or not."""
        return tuple(node for node in self.nodes.values() if node.role == "controller")

    def quorum_property(self) -> tuple[str, str]:
        """Return the property by which a node finds the quorum, and its value.

        A static quorum, which every release supports, is all in it. A dynamic one is in the metadata log (KIP-853).
        """
        if self.spec.has_dynamic_quorum:
            servers = ",".join(f"{node.address}:{CONTROLLER_PORT}" for node in self.controllers)
            return "controller.quorum.bootstrap.servers", servers
        voters = ",".join(f"{node.id}@{node.address}:{CONTROLLER_PORT}" for node in self.controllers)
        return "controller.quorum.voters", voters

    def quorum_arguments(self, node: NodeInfo, run_id: str, *, is_first_disk: bool) -> tuple[str, ...]:
        """Return StorageTool's arguments that say who votes first in a dynamic quorum: the ids, addresses and disks.

        A node that joins later, or with another disk, learns the voters from the quorum, and Kafka gives its disk a
        directory id.
        """
        if not self.spec.has_dynamic_quorum:
            return ()
        first = self.controllers[: self.spec.first_voters]
        if node not in first or not is_first_disk:
            return ("--no-initial-controllers",)
        voters = (f"{one.id}@{one.address}:{CONTROLLER_PORT}:{directory_id(run_id, one.id)}" for one in first)
        return ("--initial-controllers", ",".join(voters))


def plan_cluster(spec: ClusterSpec, address_of: Callable[[int], str]) -> ClusterPlan:
    """Return the nodes of `spec`, controllers first.

    `address_of` gives each id its address.
    """
    controllers = range(FIRST_CONTROLLER, FIRST_CONTROLLER + spec.controllers)
    nodes = [
        NodeInfo(id=id, role="controller", name=f"controller-{id}", address=address_of(id)) for id in controllers
    ] + [
        NodeInfo(id=id, role="broker", name=f"broker-{id}", address=address_of(id)) for id in range(1, spec.brokers + 1)
    ]
    return ClusterPlan(spec=spec, nodes={node.id: node for node in nodes})


def properties_of(plan: ClusterPlan, node: NodeInfo, data_dirs: Sequence[Path]) -> dict[str, str]:
    """Return all properties of `node`.

    Raises `UsageError` when the scenario sets a property that belongs to the harness.
    """
    broker = node.role == "broker"
    wished = plan.spec.properties_of(node.role)
    owned = sorted(name for name, value in wished.items() if refused_kind("node", name) or REFERENCE in value)
    if owned:
        raise UsageError(
            "a scenario cannot set this property",
            where=f"cluster.{node.role}_properties",
            got=", ".join(owned),
            next="leave the property out; `ebbtide scenarios check` says why",
        )
    generated = _common_properties(plan, node, data_dirs) | (
        _broker_properties(plan, node) if broker else _controller_properties(plan, node)
    )
    return generated | wished


def refused_value_error(spec: ClusterSpec, node: NodeInfo, log: str) -> RefusedByKafka | None:
    """Return the error for a scenario's property value that Kafka refused, or None.

    `log` is the end of the node's log.
    """
    wished = spec.properties_of(node.role)
    for refusal in _REFUSAL.finditer(log):
        name = refusal["name"]
        if name in wished:
            what, where = f"Kafka refuses {name} = {wished[name]}: {refusal['why']}", f"cluster.{node.role}_properties"
            return RefusedByKafka(what, [UsageError(what, where=f"{where}.{name}", allowed=_VALUES)], allowed=_VALUES)
    return None


def _common_properties(plan: ClusterPlan, node: NodeInfo, data_dirs: Sequence[Path]) -> dict[str, str]:
    brokers = sum(1 for other in plan.nodes.values() if other.role == "broker")
    internal_replicas = min(3, brokers)
    quorum, members = plan.quorum_property()
    return {
        "process.roles": node.role,
        "node.id": str(node.id),
        quorum: members,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        # The metadata log is in the first one.
        "log.dirs": ",".join(map(str, data_dirs)),
        # A handful of partitions and clients; each idle thread costs start-up time on a small machine.
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "1",
        # 128 MiB by default, more than half of the heap that a node gets here.
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
        # A topic that is created because of a typing error would hide a wrong scenario.
        "auto.create.topics.enable": "false",
        # Leaders move only when a step or a fault moves them.
        "auto.leader.rebalance.enable": "false",
        # 50 partitions each by default: many metadata records that no scenario looks at.
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(internal_replicas),
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": str(internal_replicas),
        "transaction.state.log.min.isr": str(min(2, internal_replicas)),
        # After a heal a node must not wait for a connection attempt that began under the cut (10 to 30 s).
        "socket.connection.setup.timeout.ms": "1000",
        "socket.connection.setup.timeout.max.ms": "2000",
    }


def _broker_properties(plan: ClusterPlan, node: NodeInfo) -> dict[str, str]:
    lag_max_ms = round(plan.spec.replica_lag_max_s * 1000)
    return {
        **_lone_controller_properties(plan),
        **_listeners(node, plan.published.get(node.id)),
        "inter.broker.listener.name": "PLAINTEXT",
        "broker.heartbeat.interval.ms": str(_heartbeat_ms(plan)),
        "replica.lag.time.max.ms": str(lag_max_ms),
        # Kafka refuses to start when a follower may wait longer than it may lag.
        "replica.fetch.wait.max.ms": str(min(500, lag_max_ms)),
        # A leader that dies under a cut leaves its followers waiting on a connection that will never answer,
        # for 30 s by default, long after the heal. Requests to the controller have a timeout of their own.
        "request.timeout.ms": "3000",
        # A consumer group with one member need not wait for others to join.
        "group.initial.rebalance.delay.ms": "0",
    }


def _lone_controller_properties(plan: ClusterPlan) -> dict[str, str]:
    """Return what keeps a broker from taking a whole core while it is cut from the only controller.

    After this timeout (2 s by default) it looks for another controller, which is not there. A broker of 4.x does so
    without a pause, until the cut heals.
    """
    return {"controller.quorum.fetch.timeout.ms": "60000"} if len(plan.controllers) == 1 else {}


def _listeners(node: NodeInfo, published: str | None) -> dict[str, str]:
    """Return a broker's listeners; each answers metadata requests with the addresses that its own clients can reach."""
    own = f"PLAINTEXT://{node.address}:{BROKER_PORT}"
    if published is None:
        return {"listeners": own, "advertised.listeners": own}
    return {
        "listeners": f"{own},PUBLISHED://{node.address}:{PUBLISHED_PORT}",
        "advertised.listeners": f"{own},PUBLISHED://{published}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PUBLISHED:PLAINTEXT",
    }


def _controller_properties(plan: ClusterPlan, node: NodeInfo) -> dict[str, str]:
    return {
        "listeners": f"CONTROLLER://{node.address}:{CONTROLLER_PORT}",
        # The controller keeps the sessions: in a broker's properties these two have no effect.
        "broker.session.timeout.ms": str(round(plan.spec.session_timeout_s * 1000)),
        "broker.heartbeat.interval.ms": str(_heartbeat_ms(plan)),
    }


def _heartbeat_ms(plan: ClusterPlan) -> int:
    """Return the heartbeat interval: six in a session.

    A JVM that is starved for a moment is then not fenced.
    """
    return max(50, round(plan.spec.session_timeout_s * 1000 / 6))
