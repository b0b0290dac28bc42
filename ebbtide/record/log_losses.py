"""Finds the events in which a broker's log lost records, from the steps' proofs.

No metadata record says that a disk lost data. The schedule does, since the harness itself caused
it. A SIGKILL loses nothing: the page cache survives the process.

How requests to delete records moved log starts: written into steps.jsonl, and read back by the judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ebbtide.errors import EbbtideError
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.node_times import Span
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.admin import DeleteRecordsStep
from ebbtide.scenario.steps.disk import DirectoryStep
from ebbtide.scenario.steps.step import LogStartMove, MeasuredLog, StepProof
from ebbtide.scenario.steps.table import KINDS, LOSES_RECORDS, TAKES_DOWN
from ebbtide.scenario.words import PartitionName

_WIPES = frozenset(kind for kind, one in KINDS.items() if one.loses == "all")
UNCLEAN_STEPS = LOSES_RECORDS | {kind for kind in TAKES_DOWN if not KINDS[kind].clean}
"""Steps after which a broker returns without a clean-shutdown file."""


HOLDS = "holds"
"""Key of the proof of a step on one log directory: the logs that were in it."""


class BrokerLogLoss(msgspec.Struct, frozen=True, kw_only=True):
    """One broker's log went back between `fired_ns` and `done_ns`.

    `starts` and `ends` hold, per `topic-partition`, the measured log end offset before and afterwards. `whole` holds
    the partitions whose log was measured to have lost nothing; `lost_bytes` is the figure of the whole volume. If none
    of them is there, how much was lost is not known. `only` are the logs of the log directory that the step named: the
    others lost nothing. None: it named none. `gone`: when the broker's own log went, as far as it was measured.
    """

    broker: int
    fired_ns: int
    done_ns: int
    wiped: bool = False
    lost_bytes: int | None = None
    starts: dict[str, int] = {}
    ends: dict[str, int] = {}
    whole: frozenset[str] = frozenset()
    only: frozenset[str] | None = None
    gone: Span | None = None

    def costs(self, topic: str, partition: int) -> bool:
        """Return whether the partition's log may have lost any record.

        A measurement decides, if there is one.
        """
        name = f"{topic}-{partition}"
        if name in self.ends:
            return name not in self.whole
        if self.only is not None and name not in self.only:
            return False
        return self.wiped or self.lost_bytes is None or self.lost_bytes > 0

    def can_reach(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether the log may have ended at or below `offset` afterwards.

        A measurement decides, if there is one.
        """
        end = self.ends.get(f"{topic}-{partition}")
        return self.costs(topic, partition) and (end is None or end <= offset)


def log_losses(steps: list[StepEntry]) -> tuple[BrokerLogLoss, ...]:
    """Return the log losses of a schedule by time, without steps that never fired."""
    found = []
    for step in steps:
        if step.fired_ns is None:
            continue
        for node in step.nodes:
            proof = step.figures(StepProof).of(node)
            holds = step.figures(DirectoryStep.Proof).of(node).holds
            only, logs = None if holds is None else frozenset(holds), proof.logs or {}
            if step.step not in LOSES_RECORDS and not proof.lost_bytes:
                continue
            found.append(
                BrokerLogLoss(
                    broker=node,
                    fired_ns=step.fired_ns,
                    done_ns=step.effect_ns if step.effect_ns is not None else step.fired_ns,
                    wiped=step.step in _WIPES,
                    lost_bytes=proof.lost_bytes,
                    starts={name: log.leo_before for name, log in logs.items() if log.leo_before is not None},
                    ends={name: log.leo_after for name, log in logs.items() if log.leo_after is not None},
                    whole=_whole_logs(logs),
                    only=only,
                    gone=step.times_of(node).log_gone,
                )
            )
    return tuple(sorted(found, key=lambda loss: loss.fired_ns))


def _whole_logs(logs: Mapping[str, MeasuredLog]) -> frozenset[str]:
    """Return the logs that were measured to end where they ended before, or later."""
    return frozenset(
        name
        for name, log in logs.items()
        if log.leo_before is not None and log.leo_after is not None and log.leo_after >= log.leo_before
    )


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
