"""The step that carries out KIP-966's unclean recovery from outside.

No Kafka release has the Unclean Recovery Manager (KAFKA-15580).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

import msgspec

from ebbtide.scenario.steps.admin import RequestStep
from ebbtide.scenario.steps.step import Kind, ProvingRecord, StepProof
from ebbtide.scenario.words import Duration, PartitionName

Strategy = Literal["balanced", "proactive", "manual"]


class ReplicaReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica said of its log; None: it did not answer."""

    last_epoch: int | None = None
    log_end_offset: int | None = None


class RecoverStep(RequestStep, frozen=True, kw_only=True, tag="recover"):
    """Asks the replicas of a leaderless partition for their logs, and elects as a strategy says.

    `timeout` is KIP-966's unclean.recovery.timeout.ms. `deadline_s` bounds the whole step: Balanced
    waits longer than `timeout` for a member of LastKnownElr.
    """

    kind = Kind(
        first="partition",
        family="recovery",
        does="carries out KIP-966's unclean recovery from outside: asks the replicas of a leaderless partition for "
        "their logs, and has one elected by `strategy`",
        note="asks by ListOffsets and Fetch, elects by AlterPartitionReassignments and ElectLeaders. `manual` elects "
        "nobody. Refusals for `expect_error`: `ELECTION_NOT_NEEDED` if the partition has a leader or gets one from "
        "Kafka first, `ELIGIBLE_LEADERS_NOT_AVAILABLE` if there is no choice by `deadline_s`",
        unset={"timeout": "`5s`"},
        proof="the partition record of the election, and the new leader's own answer; each replica's answer "
        "agrees with its volume. `manual`: the answers, and no leader until `timeout`",
        undone="not: what Kafka was asked for stays in the cluster, which ends with the run",
        counted=("unclean-recoveries", "unclean recoveries carried out from outside, those by Manual included"),
        weight=0.5,
        lasts_s=5.0,
    )

    class Proof(StepProof, frozen=True, kw_only=True):
        """The broker that the strategy chose, the reply of each replica, and the record of the election."""

        record: ProvingRecord | None = None
        chosen: int | None = None
        replies: dict[int, ReplicaReply] | None = None

    shown = MappingProxyType({"timeout": "how long to wait for every replica's answer, e.g. '5s'"})
    partition: PartitionName
    strategy: Strategy
    timeout: Duration = Duration("5s")


RecoveryStep = RecoverStep
