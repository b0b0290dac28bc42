"""Distinguishes records that a step deleted on purpose from lost records.

The step `delete-records` moves the log start of a partition. Its proof in steps.jsonl has the log
start before and after, the leader epoch under which the leader said both, and the times of request
and answer.

The rule: a record below that log start that was sent before the answer was *deleted on purpose*,
whatever became of the log later. It is not lost. But an earlier election may have lost it before it
could be deleted. It *surely stood* only where no election lies between its ack and the deletion:

- it was sent after the leader epoch of the deletion began, and acked before the next epoch began;
- if it was sent with acks=0 or acks=1, the partition had no earlier leader epoch. A deposed leader
  acks such records, too;
- no step before the deletion took records from the log of that epoch's leader. A leader that loses
  power, and registers again before it is fenced, keeps its epoch and uses offsets again.

Where a record was deleted on purpose and did not surely stand, the kind `lost` is unknown.

The steps `delete-topic` and `create-topic` delete all records of a topic. The tables name such a topic
`u@1` (the module topic_lives of ebbtide.record), and its records are deleted on purpose by the same
rule, in the last leader epoch that the topic had. A record of `u@?` went to one of several topics of
that name, and the final read does not have it: it did not surely stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from analysis.record.record import Record
from ebbtide.errors import EbbtideError
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.log_losses import BrokerLogLoss, log_losses, log_start_moves
from ebbtide.record.rows import PartitionState
from ebbtide.record.topic_lives import TopicLives, is_unknown, name_of, unknown_of
from ebbtide.scenario.steps.step import LogStartMove

CLOCK_NS = 1_000_000
"""Kafka writes the times of metadata records in whole milliseconds."""
_ALL = 2**63 - 1
"""An offset and a time that are above all others."""


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """Records deleted on purpose: those of a partition below `log_start`, until `answered_ns`.

    `began_ns`, `ended_ns`: when the leader epoch of the deletion began, and when the next one did (None: never).
    Nothing surely stood where `began_ns` is None: which epoch it was is not known, or its leader may have lost
    records. `is_first_epoch`: the partition had no epoch before.
    """

    topic: str
    partition: int
    log_start: int
    answered_ns: int
    began_ns: int | None
    ended_ns: int | None
    is_first_epoch: bool


def deletions_of(record: Record) -> tuple[Deletion, ...]:
    """Return what the steps of a run deleted on purpose, by the proofs in its steps.jsonl.

    A proof of another shape deletes nothing. Raises `UsageError` when a table of the timeline is damaged.
    """
    try:
        steps = record.steps or []
        losses = log_losses(record.split_steps or [])
    except EbbtideError:
        # A damaged steps.jsonl is reported where faults are judged; it proves nothing here.
        return ()
    proven, lives = list(log_start_moves(steps)), TopicLives.of_steps(steps)
    if not proven and not lives.reused_names:
        return ()
    epochs = {TopicPartition(*place): _leader_epochs(states) for place, states in record.timeline.partitions.items()}
    of_records = [_deletion(at, move, epochs.get(at, []), losses) for at, move in proven]
    return (*of_records, *_deleted_topics(lives, epochs, losses))


def _deleted_topics(
    lives: TopicLives, epochs: Mapping[TopicPartition, Sequence[_LeaderEpoch]], losses: Sequence[BrokerLogLoss]
) -> Iterator[Deletion]:
    """Yield a deletion of all records of each topic that was deleted, and of each that may have been.

    The last leader epoch in the metadata log decides what surely stood.
    """
    for name in sorted(lives.reused_names):
        made = lives.recreations(name)
        numbers = {at.partition for at in epochs if name_of(at.topic) == name}
        for number, recreation in enumerate(made):
            for partition in sorted(numbers):
                at = TopicPartition(lives.numbered(name, number), partition)
                last = epochs[at][-1].number if epochs.get(at) else None
                move = LogStartMove(
                    old=0,
                    new=_ALL,
                    leader_epoch=-1 if last is None else last,
                    asked_ns=recreation.asked_ns,
                    answered_ns=recreation.asked_ns,
                )
                yield _deletion(at, move, epochs.get(at, []), losses)
        for partition in sorted(numbers):
            yield Deletion(
                topic=unknown_of(name),
                partition=partition,
                log_start=_ALL,
                answered_ns=_ALL,
                began_ns=None,
                ended_ns=None,
                is_first_epoch=False,
            )


def why_unsure(partitions: Iterable[str]) -> str:
    """Say of records of these partitions, deleted on purpose, why they may have been lost before."""
    if any(is_unknown(TopicPartition.parse(one).topic) for one in partitions):
        return "were acked while a step deleted a topic and made it again, and no log says which of the two had them"
    return "were deleted on purpose, and nothing says that no earlier election had lost them"


class _LeaderEpoch(NamedTuple):
    number: int
    began_ns: int
    leader: int


def _leader_epochs(states: Sequence[PartitionState]) -> list[_LeaderEpoch]:
    """Return the leader epochs of a partition in the order of the metadata log."""
    found: list[_LeaderEpoch] = []
    for state in states:
        if not found or found[-1].number != state.leader_epoch:
            found.append(_LeaderEpoch(state.leader_epoch, state.at_ns, state.leader))
    return found


def _deletion(
    at: TopicPartition, move: LogStartMove, epochs: Sequence[_LeaderEpoch], losses: Sequence[BrokerLogLoss]
) -> Deletion:
    here = [number for number, epoch in enumerate(epochs) if epoch.number == move.leader_epoch]
    # An epoch that begins twice is of a topic that was created again: which of the two deleted is not known.
    number = here[0] if len(here) == 1 else None
    is_sure = number is not None and not _may_lack_records(at, move, epochs[number], losses)
    later = epochs[number + 1 :] if number is not None else []
    return Deletion(
        topic=at.topic,
        partition=at.partition,
        log_start=move.new,
        answered_ns=move.answered_ns,
        began_ns=epochs[number].began_ns if number is not None and is_sure else None,
        ended_ns=later[0].began_ns if later else None,
        is_first_epoch=number == 0 and move.leader_epoch == 0,
    )


def _may_lack_records(
    at: TopicPartition, move: LogStartMove, epoch: _LeaderEpoch, losses: Sequence[BrokerLogLoss]
) -> bool:
    """Whether a step may have taken records from the log of the epoch's leader before they were deleted.

    Also a loss before the epoch counts: a disk that failed takes records until it is replaced or writable again.
    """
    return any(
        one.broker == epoch.leader and one.fired_ns <= move.answered_ns and one.costs(name_of(at.topic), at.partition)
        for one in losses
    )
