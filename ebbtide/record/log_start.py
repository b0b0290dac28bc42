"""How requests to delete records moved log starts: written into steps.jsonl, and read back by the judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ebbtide.errors import EbbtideError
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.admin import DeleteRecordsStep
from ebbtide.scenario.steps.proof import LogStartMove
from ebbtide.scenario.words import PartitionName


def log_start_moves(steps: Iterable[StepEntry]) -> Iterator[tuple[TopicPartition, LogStartMove]]:
    """Return how the steps moved log starts, by the figures in their proofs.

    A step without an effect counts, too: Kafka may have moved the log start and answered with an error. A proof of
    another shape says nothing.
    """
    for step in steps:
        move = step.figures(DeleteRecordsStep.Proof).log_start
        try:
            at = PartitionName(step.asked.partition or "").at
        except EbbtideError:
            continue
        if move is not None and move.new > move.old:
            yield TopicPartition(*at), move
