"""The messages on a cluster's control socket.

Each connection carries one request and one reply, each a line of JSON.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ebbtide.errors import EbbtideError, ExitCode, HarnessError, UsageError
from ebbtide.privileges import Privileges
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import TopicSpec
from ebbtide.scenario.steps.step import StepSpec


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a cluster: its process, and the newest event of its broker's registration (null for controllers)."""

    id: int
    role: Literal["broker", "controller"]
    state: str
    registration: str | None = None


class FaultInForce(msgspec.Struct, frozen=True, kw_only=True):
    """A lasting fault of connections or volumes: the kind of step, whom it hits in words, and whether it has proof."""

    step: str
    whom: str
    nodes: tuple[int, ...] = ()
    proven: bool


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a cluster that is up.

    - `record`: the folder of its run.
    - `nodes`: by their names.
    - `partitions`: their newest states in the KRaft log, as in the table `partitions` of a record.
    - `broken`: the lasting faults of connections and volumes.
    - `namespace`: the clients' network namespace as the daemon sees it; `powers` are the daemon's privileges.
    - `scenario`: empty for a plain cluster.
    - `kept`: its run is over, and the cluster was left up.
    - `bootstrap`, `controllers`: the addresses of the brokers and of the controllers in the clients' network.
    - `published`: the addresses on the host's loopback that lead to the brokers.
    """

    name: str
    run_id: str
    record: str
    scenario: str
    kafka: str
    runtime: str
    power_loss_method: str
    powers: Privileges
    bootstrap: tuple[str, ...]
    namespace: str
    nodes: dict[str, NodeStatus]
    partitions: tuple[PartitionState, ...]
    broken: tuple[FaultInForce, ...] = ()
    steps: int
    kept: bool = False
    published: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()


class AskStatus(msgspec.Struct, frozen=True, kw_only=True, tag="status"):
    """Ask for the cluster's status."""


class Fire(msgspec.Struct, frozen=True, kw_only=True, tag="fire"):
    """Carry out a step; answered once it has been carried out, or has failed."""

    step: StepSpec


class CreateTopic(msgspec.Struct, frozen=True, kw_only=True, tag="create-topic"):
    """Create a topic; answered once every partition has a leader and its whole ISR."""

    topic: str
    spec: TopicSpec


class EndCluster(msgspec.Struct, frozen=True, kw_only=True, tag="down"):
    """End the cluster.

    There is no answer: the connection closes when nothing is left of the cluster.
    """


Request = AskStatus | Fire | CreateTopic | EndCluster


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An `EbbtideError` on its way to another process."""

    usage: bool
    what: str
    where: str | None = None
    got: str | None = None
    allowed: str | None = None
    next: str | None = None

    @classmethod
    def of(cls, error: EbbtideError) -> Refusal:
        """Return the refusal for `error`; several problems are kept in its first line."""
        heading, _, rest = error.render().partition("\n")
        usage = error.exit_code is ExitCode.USAGE
        if getattr(error, "problems", None):
            return cls(usage=usage, what=f"{heading}\n{rest}")
        return cls(
            usage=usage, what=error.what, where=error.where, got=error.got, allowed=error.allowed, next=error.next
        )

    def error(self) -> EbbtideError:
        """Return the error, to be raised in this process."""
        kind = UsageError if self.usage else HarnessError
        return kind(self.what, where=self.where, got=self.got, allowed=self.allowed, next=self.next)


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A `refusal`, or the answer; `status` is set unless the request was refused."""

    status: ClusterStatus | None = None
    step: StepEntry | None = None
    refusal: Refusal | None = None
