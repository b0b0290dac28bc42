"""What replicas reply to an unclean recovery, who asks them, and the rule that chooses from the replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest
from cluster.kafka_api.replica_log import ReplicaAnswers, ReplicaLogInfo
from cluster.runtime.cluster import Runtime
from ebbtide.logs.segments import TopicPartition, log_end, replica_folder
from ebbtide.record.rows import PartitionState
from ebbtide.scenario.steps.recovery import Strategy


class LogReply(msgspec.Struct, frozen=True, kw_only=True):
    """One replica's answer, with the broker epoch of its registration when it was asked."""

    log: ReplicaLogInfo
    broker_epoch: int


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers to lead, the best first; empty while the recovery waits.

    `awaited`: the members of LastKnownElr without a reply. `void`: why a broker's reply does not
    count.
    """

    ranked: tuple[int, ...] = ()
    awaited: tuple[int, ...] = ()
    void: dict[int, str] = {}


class Choose(Protocol):
    """The rule of an unclean recovery: `harness.runner.recovery.choose`."""

    def __call__(
        self,
        strategy: Strategy,
        state: PartitionState,
        last_known_elr: frozenset[int],
        replies: Sequence[LogReply],
        broker_epochs: Mapping[int, int],
    ) -> Choice:
        """Return the choice; `broker_epochs` has those of the live brokers."""


class AskedReplicas(Protocol):
    """Replicas that are asked for their logs until `close`, by a tool that also sends requests."""

    def answers(self) -> ReplicaAnswers:
        """Return the newest answers. Raises `HarnessError` when the asking process died."""

    def administer(self, request: AdminRequest, timeout_s: float) -> AdminAnswer:
        """Return Kafka's answer to a request. Raises `HarnessError` if Kafka did not answer."""

    def close(self) -> None:
        """Ask no more."""


class AskReplicas(Protocol):
    """The type of `Workload.ask_replicas`."""

    def __call__(self, at: TopicPartition, replicas: Sequence[int]) -> AskedReplicas:
        """Begin to ask the replicas of a partition for their logs."""


def shown_reply(reply: LogReply | None, error: str, volume: dict[str, int] | None, asked_ns: int) -> dict[str, object]:
    """Return what a replica answered, for the proof, beside what its volume holds.

    `error`: why there is no answer. The time of the answer counts from `asked_ns`.
    """
    if reply is None:
        return {"volume": volume, "no_answer": error}
    told = {"log_end_offset": reply.log.log_end_offset, "last_epoch": reply.log.last_epoch}
    return {
        "volume": volume,
        **told,
        "current_leader_epoch": reply.log.current_leader_epoch,
        "broker_epoch": reply.broker_epoch,
        "after_s": round((reply.log.at_ns - asked_ns) / 1e9, 3),
        "as_on_volume": None if volume is None else volume == told,
    }


def log_on_volume(runtime: Runtime, broker: int, at: TopicPartition) -> dict[str, int] | None:
    """Return where the log ends on the broker's volume; None if the volume cannot be read."""
    try:
        folder = replica_folder(runtime.data_dirs(broker), at)
        if not folder.is_dir():
            return None
        end = log_end(folder)
    except OSError:
        return None
    return {"log_end_offset": end.leo, "last_epoch": end.last_epoch}
