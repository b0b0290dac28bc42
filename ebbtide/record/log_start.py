"""How requests to delete records moved log starts: written into steps.jsonl, and read back by the judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ebbtide.errors import EbbtideError
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.admin import DeleteRecordsStep
from ebbtide.scenario.words import PartitionName


class LogStartMove(msgspec.Struct, frozen=True, kw_only=True):
    """A leader's log start before and after a request, as the leader itself said under `leader_epoch`.

    `asked_ns`, `answered_ns`: when the request was sent, and when the log start after it was known.
    """

    old: int
    new: int
    leader_epoch: int
    asked_ns: int
    answered_ns: int


def log_start_moves(steps: Iterable[StepEntry]) -> Iterator[tuple[TopicPartition, LogStartMove]]:
    """Return how the steps moved log starts, by the figures in their proofs.

    A step without an effect counts, too: Kafka may have moved the log start and answered with an error. A proof of
    another shape says nothing.
    """
    for step in steps:
        if not step.is_a(DeleteRecordsStep) or "log_start" not in step.proof:
            continue
        try:
            move = msgspec.convert(step.proof["log_start"], LogStartMove)
            at = PartitionName(str(step.parameters.get("partition"))).at
        except (msgspec.ValidationError, EbbtideError):
            continue
        if move.new > move.old:
            yield TopicPartition(*at), move
