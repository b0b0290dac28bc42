"""Random small histories, from dice that roll few outcomes so that rows meet."""

from __future__ import annotations

import random

from reconcile_planted import COORDINATORS
from records import FINAL_CONSUMER, RecordBuilder

from ebbtide.record.tables import TABLES

TOPICS = 25
"""Each topic of a run is a history with values of its own; all runs are reconciled in the same jobs."""


class Dice(random.Random):
    """Draws, with few possible outcomes, so that rows meet."""

    def maybe(self, drawn: int) -> int | None:
        return self.choice([drawn, drawn, None])

    def numbers_between(self, least: int, most: int) -> list[int]:
        return [number for number in range(least, most + 1) if self.random() < 0.5]


def _offset(dice: Dice) -> int:
    """Few offsets, of which some share a block and some do not."""
    return dice.choice([0, 1, 2, 3, 62, 63, 64])


def _epoch(offset: int, value: int | None) -> int:
    """A record is appended under one leader epoch."""
    return (offset + (value or 0)) % 5


def _reported_epoch(dice: Dice, offset: int, value: int | None) -> int | None:
    """Return the leader epoch that a consumer reports; None now and then."""
    return None if dice.random() < 0.1 else _epoch(offset, value)


def _sends(dice: Dice, builder: RecordBuilder, *, transactions: bool) -> None:
    for value in dice.numbers_between(1, 6):
        outcome = dice.choice([None, None, "committed", "aborted", "unknown"]) if transactions else None
        builder.send(
            value,
            at=dice.maybe(_offset(dice)),
            status=dice.choice(["acked", "acked", "acked", "failed", "unknown"]),
            acks=dice.choice([-1, 0, 1]),
            txn=None if outcome is None else 1,
            txn_outcome=outcome,
            producer=dice.choice([1, 1, 2]),
            partition=dice.randrange(2),
            sent_ns=dice.randint(1, 40),
            done_ns=dice.maybe(dice.randint(1, 40)),
        )


def _polls(dice: Dice, builder: RecordBuilder, *, final_isolation: str) -> None:
    isolations = {
        1: "read_uncommitted",
        2: dice.choice(["read_uncommitted", "read_committed"]),
        FINAL_CONSUMER: final_isolation,
    }
    for consumer, isolation in isolations.items():
        final = consumer == FINAL_CONSUMER
        for _ in range(dice.randint(0, 6)):
            value, offset = None if dice.random() < 0.1 else dice.randint(1, 6), _offset(dice)
            builder.read(
                value,
                at=offset,
                consumer=consumer,
                session=1 if final else dice.choice([1, 1, 2]),
                prev_offset=dice.maybe(_offset(dice)),
                isolation=isolation,
                polled_ns=dice.randint(1, 40) + (dice.choice([40, 40, 40, 0]) if final else 0),
                leader_epoch=_reported_epoch(dice, offset, value),
                partition=dice.randrange(2),
            )


def _in_turn(dice: Dice, builder: RecordBuilder) -> None:
    """Add two values that consumers got in turn at one offset of a leader epoch.

    Each came back after the other.
    """
    offset, value = _offset(dice), dice.choice([1, 6])
    for number in range(dice.randint(2, 4)):
        builder.read(
            value,
            at=offset,
            consumer=dice.choice([1, 2]),
            polled_ns=50 + number,
            leader_epoch=_epoch(offset, value),
            partition=1,
        )
        value = 7 - value


def _as_acked(dice: Dice, builder: RecordBuilder, *, partition: int) -> None:
    """Add a healthy stretch, so that blocks agree; sometimes a value is out of place."""
    at, first, read = 128, 20 + 20 * partition, None
    backwards = dice.random() < 0.3
    for value in range(first, first + dice.randint(1, 5)):
        builder.acked(value, at=at, partition=partition, sequence=100 - value if backwards else value)
        if dice.random() < 0.9:
            builder.final(value, at=at, partition=partition, leader_epoch=0)
        if dice.random() < 0.7:
            builder.read(value, at=at, consumer=3, partition=partition, leader_epoch=0, prev_offset=read)
            read = at
        at += dice.choice([1, 1, 1, 64])
    if dice.random() < 0.3:
        builder.final(first, at=dice.choice([0, 63, 128, 500]), partition=dice.randrange(2))


def _cut_off(dice: Dice, builder: RecordBuilder, *, partition: int, transactions: bool) -> None:
    """Add a log that is cut off and filled again under the next leader epoch.

    Sessions jumped in it before.
    """
    values = iter(range(60 + 20 * partition, 80 + 20 * partition))
    at = dice.choice([190, 600])
    old = {offset: next(values) for offset in range(at, at + dice.randint(3, 8))}
    cut = dice.randint(at, at + len(old))
    again = {
        offset: old[offset] if offset < cut or (offset in old and dice.random() < 0.2) else next(values)
        for offset in range(at, at + len(old) + dice.randint(-1, 2))
    }
    logs = {0: old, 1: {offset: value for offset, value in again.items() if offset >= cut}}
    sent = {(offset, value) for log in logs.values() for offset, value in log.items()}
    for offset, value in sorted(sent):
        outcome = dice.choice(["committed", "committed", "aborted"]) if transactions else None
        if dice.random() < 0.9:
            builder.send(value, at=offset, txn=None if outcome is None else 1, txn_outcome=outcome, partition=partition)
    for consumer in (4, 5):
        before, isolation = None, dice.choice(["read_uncommitted", "read_committed"])
        for epoch, log in logs.items():
            for offset in sorted(log):
                if (before is None or offset > before) and dice.random() < 0.5:
                    builder.read(
                        log[offset],
                        at=offset,
                        consumer=consumer,
                        isolation=isolation,
                        prev_offset=before,
                        leader_epoch=epoch,
                        partition=partition,
                    )
                    before = offset
    for offset, value in again.items():
        builder.final(value, at=offset, partition=partition, leader_epoch=int(offset >= cut))


def _elections(dice: Dice, builder: RecordBuilder) -> None:
    """Add values that replace each other over some elections, and falling HWs.

    They are acked in time and later.
    """
    values = iter(range(26, 40))
    for epoch in range(dice.randint(0, 4)):
        builder.led_by(dice.randint(1, 3), epoch=epoch, at_ns=10 * epoch, partition=2)
    for epoch in range(4):
        for offset in dice.numbers_between(4, 6):
            value, known = next(values), dice.random() < 0.8
            acked_ns = 10 * epoch + dice.choice([0, 5, 15, 25])
            columns = {"partition": 2, "leader_epoch": epoch if known else None}
            if dice.random() < 0.7:
                acks = dice.choice([1, 1, 1, -1])
                builder.send(value, at=offset, acks=acks, partition=2, sent_ns=acked_ns - 3, done_ns=acked_ns)
            if dice.random() < 0.2:
                builder.read(value, at=offset, consumer=6, polled_ns=acked_ns + dice.choice([0, 30]), **columns)
            if dice.random() < 0.2:
                builder.final(value, at=offset, polled_ns=90, **columns)
    for epoch in (None, *dice.numbers_between(0, 3)):
        # Half of them fall from the start, so that a record may be passed by a lower HW only.
        falls = dice.random() < 0.5
        for number in range(dice.randint(0, 4)):
            at_ns, high_watermark = dice.randint(1, 60), dice.randint(3, 8)
            if falls:
                at_ns, high_watermark = 10 + 15 * number, 9 - number
            builder.served(high_watermark, epoch=epoch, asked_ns=at_ns - 2, at_ns=at_ns, partition=2)


def _acked_alone(dice: Dice, builder: RecordBuilder) -> None:
    """Add a record that only its ack shows, among values of known leader epochs.

    The nearest value limits what can have passed it.
    """
    values = iter(range(46, 60))
    sent_ns = dice.randint(1, 60)
    builder.send(next(values), at=7, acks=1, partition=2, sent_ns=sent_ns, done_ns=sent_ns)
    for epoch in dice.numbers_between(0, 6):
        builder.read(next(values), at=7, consumer=6, polled_ns=90, leader_epoch=epoch, partition=2)
    for epoch in dice.numbers_between(0, 6):
        asked_ns = dice.randint(1, 80)
        builder.served(8, epoch=epoch, asked_ns=asked_ns, at_ns=asked_ns, partition=2)


def _evidence(dice: Dice, builder: RecordBuilder) -> None:
    for _ in range(dice.randint(0, 8)):
        asked = dice.maybe(dice.randint(1, 40))
        builder.served(
            dice.randint(0, 6),
            epoch=dice.maybe(dice.randint(0, 9)),
            source=dice.choice(["list_offsets", "list_offsets", "fetch", "checkpoint"]),
            broker=dice.randint(1, 3),
            asked_ns=asked,
            at_ns=(asked or 0) + dice.randint(0, 10),
        )
    for broker in dice.numbers_between(1, 3):
        builder.checkpoint(broker, dice.randint(0, 6))
        for offset in dice.numbers_between(0, 4):
            value = None if dice.random() < 0.2 else dice.randint(1, 6)
            for _ in range(dice.choice([1, 1, 1, 2])):
                builder.replica(broker, value, at=offset, epoch=_epoch(offset, value))
                value = dice.choice([value, value, dice.randint(1, 6)])
    for epoch in dice.numbers_between(0, 3):
        builder.led_by(dice.choice([-1, 1, 2, 3]), epoch=epoch, at_ns=dice.randint(1, 40))


def _read_at_last_stable(dice: Dice, builder: RecordBuilder, offset: int, *, partition: int, isolation: str) -> None:
    """Add records at a last stable offset: none, one or two of the final read, or one of another consumer."""
    for consumer in (FINAL_CONSUMER, dice.choice([FINAL_CONSUMER, 1])):
        if dice.random() < 0.8:
            final = consumer == FINAL_CONSUMER
            builder.read(
                dice.maybe(dice.randint(1, 6)),
                at=offset,
                consumer=consumer,
                isolation=isolation if final else "read_uncommitted",
                polled_ns=80 if final else 40,
                partition=partition,
            )


def _commits(dice: Dice, builder: RecordBuilder) -> None:
    """Add commits of a group, and answers of coordinators, some of which led no more."""
    commits = {number: dice.randint(1, 3) for number in dice.numbers_between(1, 5)}
    for number, offset in commits.items():
        asked = dice.randint(1, 60)
        status = dice.choice(["acked", "acked", "acked", "unknown", "failed"])
        done = dice.maybe(asked + dice.randint(0, 10))
        builder.commit(number, offset, status=status, asked_ns=asked, done_ns=done)
    for _ in range(dice.randint(0, 5)):
        asked = dice.randint(1, 80)
        served = dice.choice([None, None, 9, *commits])
        builder.answer(
            None if served == 9 else served,
            None if served is None else commits.get(served, 7),
            broker=dice.choice([1, 1, 2]),
            asked_ns=asked,
            done_ns=asked + dice.randint(0, 5),
        )


def _copies(dice: Dice, builder: RecordBuilder) -> None:
    """Add copies of inputs, of which some are read, and offsets of their groups."""
    for value in dice.numbers_between(1, 6):
        builder.copy(
            value, of=dice.randint(0, 3), group=dice.choice(["g", "g", "h"]), partition=dice.choice([0, 0, 0, 1])
        )
    for group in ("g", "h"):
        builder.answer(None, dice.randint(1, 4), group=group, partition=dice.choice([0, 0, 0, 1]))


def _group_reads(dice: Dice, builder: RecordBuilder, *, topic: int, transactions: bool) -> None:
    """Add a partition that two groups read in sessions and by resets, and leave some of it out."""
    first, second, other = (1_000 + 10 * topic + number for number in range(3))
    builder.group(f"readers-{topic}", first, second).group(f"others-{topic}", other)
    at, columns = dice.choice([0, 60, 190]), {"partition": 3}
    log = dict(enumerate(range(8, 8 + dice.randint(4, 12)), at))
    if dice.random() < 0.5:
        builder.led_by(1, epoch=0, at_ns=dice.choice([1, 1, 20]), **columns)
    for offset, value in log.items():
        outcome = dice.choice(["committed", "committed", "aborted"]) if transactions else None
        sent = dice.randint(1, 60)
        if dice.random() < 0.9:
            in_txn = {"txn": None if outcome is None else 1, "txn_outcome": outcome}
            builder.send(value, at=offset, sent_ns=sent, done_ns=dice.maybe(sent + 5), **in_txn, **columns)
        if dice.random() < 0.9:
            builder.final(value, at=offset, leader_epoch=0, polled_ns=200, **columns)
    if dice.random() < 0.3:
        builder.end(log_start=at + dice.randint(0, 4), **columns)
    known = dice.random() < 0.8
    for session in range(dice.randint(1, 5)):
        now, consumer, partitions = (
            5 + 20 * session,
            dice.choice([first, first, second, other]),
            dice.choice([(0,), (3,), (0, 3)]),
        )
        if known and dice.random() < 0.7:
            builder.assigned(consumer, *partitions, at_ns=now)
        begin = dice.choice([at, at + 2, at + dice.randint(0, len(log))])
        if dice.random() < 0.3:
            builder.reset(consumer, begin, partition=3, at_ns=now + 2)
        for number in range(dice.choice([0, 1, 3, 5])):
            offset = begin + number
            if offset in log and dice.random() < 0.9:
                builder.read(
                    log[offset] if dice.random() < 0.95 else dice.randint(8, 19),
                    at=offset,
                    consumer=consumer,
                    session=session,
                    prev_offset=None,
                    leader_epoch=0,
                    polled_ns=now + 3 + number,
                    **columns,
                )
        if known and dice.random() < 0.5:
            builder.assigned(consumer, *dice.choice([(), partitions]), event="revoked", at_ns=now + 10)


def run(dice: Dice) -> RecordBuilder:
    """One run, with a history a topic."""
    builder = RecordBuilder(
        status=dice.choice(["complete", "complete", "complete", "interrupted"]),
        final_consumer=dice.choice([FINAL_CONSUMER] * 5 + [None]),
    )
    transactions = dice.random() < 0.5
    final_isolation = dice.choice(["read_uncommitted", "read_uncommitted", "read_committed"])
    builder.producer(1, idempotent=dice.random() < 0.5, transactional=transactions and dice.random() < 0.5)
    if dice.random() < 0.8:
        open_or_unknown = dice.choice(["Ongoing", "PrepareCommit", None])
        state = open_or_unknown if dice.random() < 0.2 else dice.choice(["CompleteCommit", "CompleteAbort", "Empty"])
        silent = ("b:9092",) if dice.random() < 0.1 else ()
        builder.transactions(*silent, one=state, still=dice.random() < 0.5)
    builder.empty(*TABLES)
    for epoch, (broker, at_ns) in enumerate(COORDINATORS):
        builder.coordinated_by(broker, epoch=epoch, at_ns=at_ns)
    moves = dice.random() < 0.5
    for topic in range(TOPICS):
        builder.on(f"topic-{topic}", base=topic * 100)
        if dice.random() < 0.9:
            _sends(dice, builder, transactions=transactions)
        _polls(dice, builder, final_isolation=final_isolation)
        if dice.random() < 0.3:
            _in_turn(dice, builder)
        for partition in (0, 1):
            if dice.random() < 0.5:
                _as_acked(dice, builder, partition=partition)
            if dice.random() < 0.5:
                _cut_off(dice, builder, partition=partition, transactions=transactions)
            log_start = dice.choice([0, 0, 2, 64, 130]) if moves else 0
            high_watermark = dice.choice([2, 7, 100, 1000])
            last_stable = min(_offset(dice), high_watermark) if dice.random() < 0.3 else None
            builder.end(
                partition=partition, log_start=log_start, high_watermark=high_watermark, last_stable=last_stable
            )
            if last_stable is not None:
                _read_at_last_stable(dice, builder, last_stable, partition=partition, isolation=final_isolation)
        _evidence(dice, builder)
        _elections(dice, builder)
        if dice.random() < 0.5:
            _acked_alone(dice, builder)
        _group_reads(dice, builder, topic=topic, transactions=transactions)
        if dice.random() < 0.5:
            _commits(dice, builder)
        if dice.random() < 0.5:
            _copies(dice, builder)
        if dice.random() < 0.1:
            builder.not_in_final_read()
    return builder.in_order()
