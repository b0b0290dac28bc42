"""The parts that a drawn history is composed of.

What they draw has few possible outcomes, so that rows meet.
"""

from __future__ import annotations

from typing import Any

from reconcile_draws import Draws, Parts, Setup, epoch_of
from records import FINAL_CONSUMER, RecordBuilder

FIRST_MEMBER, MEMBERS = 10_000, 3
"""Members of groups that one topic has; those of the next topic have the numbers after them."""


def _outcome(d: Draws, setup: Setup) -> dict[str, Any]:
    outcome = d.one_of(None, None, "committed", "aborted", "unknown") if setup.transactions else None
    return {"txn": None if outcome is None else 1, "txn_outcome": outcome}


def _sends(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """What producers say of values that may be read anywhere."""
    for value in d.numbers_between(1, 6):
        b.send(
            value,
            at=d.maybe(d.offset()),
            status=d.one_of("acked", "acked", "acked", "failed", "unknown"),
            acks=d.one_of(-1, 0, 1),
            producer=d.one_of(1, 1, 2),
            partition=d.number(0, 1),
            sent_ns=d.number(1, 40),
            done_ns=d.maybe(d.number(1, 40)),
            **_outcome(d, setup),
        )


def _polls(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw what two consumers and the final read say.

    The final read may be at other times than at the end.
    """
    other = d.one_of("read_uncommitted", "read_committed")
    for consumer, isolation in ((1, "read_uncommitted"), (2, other), (FINAL_CONSUMER, setup.final_isolation)):
        final = consumer == FINAL_CONSUMER
        for _ in range(d.number(0, 6)):
            value, offset = None if d.is_drawn(10) else d.number(1, 6), d.offset()
            b.read(
                value,
                at=offset,
                consumer=consumer,
                session=1 if final else d.one_of(1, 1, 2),
                prev_offset=d.maybe(d.offset()),
                isolation=isolation,
                polled_ns=d.number(1, 40) + (d.one_of(40, 40, 40, 0) if final else 0),
                leader_epoch=None if d.is_drawn(10) else epoch_of(offset, value),
                partition=d.number(0, 1),
            )


def _draw_agreeing_stretch(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw a healthy stretch, so that blocks agree.

    Sometimes it is out of order, or a value is out of place.
    """
    partition = d.number(0, 1)
    at, first, before, backwards = 128, 20 + 20 * partition, None, d.is_drawn(30)
    for value in range(first, first + d.number(1, 5)):
        b.acked(value, at=at, partition=partition, sequence=200 - value if backwards else value)
        if d.is_drawn(90):
            b.final(value, at=at, partition=partition, leader_epoch=0, isolation=setup.final_isolation)
        if d.is_drawn(70):
            b.read(value, at=at, consumer=3, partition=partition, leader_epoch=0, prev_offset=before)
            before = at
        at += d.one_of(1, 1, 1, 64)
    if d.is_drawn(30):
        place = d.one_of(0, 63, 128, 500)
        b.final(first, at=place, partition=d.number(0, 1), isolation=setup.final_isolation)


def _cut_off(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw a log that is cut off and filled again under the next leader epoch.

    Sessions jumped in it before.
    """
    partition = d.number(0, 1)
    values = iter(range(60 + 20 * partition, 80 + 20 * partition))
    at = d.one_of(190, 600)
    old = {offset: next(values) for offset in range(at, at + d.number(3, 8))}
    cut = d.number(at, at + len(old))
    again = {
        offset: old[offset] if offset < cut or (offset in old and d.is_drawn(20)) else next(values)
        for offset in range(at, at + len(old) + d.number(-1, 2))
    }
    logs = {0: old, 1: {offset: value for offset, value in again.items() if offset >= cut}}
    for offset, value in sorted({place for log in logs.values() for place in log.items()}):
        if d.is_drawn(90):
            b.send(value, at=offset, partition=partition, **_outcome(d, setup))
    for consumer in (4, 5):
        before, isolation = None, d.one_of("read_uncommitted", "read_committed")
        for epoch, log in logs.items():
            for offset in sorted(log):
                if (before is None or offset > before) and d.is_drawn(50):
                    columns = {"prev_offset": before, "leader_epoch": epoch, "partition": partition}
                    b.read(log[offset], at=offset, consumer=consumer, isolation=isolation, **columns)
                    before = offset
    for offset, value in again.items():
        columns = {"leader_epoch": int(offset >= cut), "partition": partition}
        b.final(value, at=offset, isolation=setup.final_isolation, **columns)


def _elections(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw values that replace each other over some elections, and falling HWs.

    They are acked in time and later.
    """
    values = iter(range(26, 40))
    for epoch in range(d.number(0, 4)):
        b.led_by(d.number(1, 3), epoch=epoch, at_ns=10 * epoch, partition=2)
    for epoch in range(4):
        for offset in d.numbers_between(4, 6):
            value, acked_ns = next(values), 10 * epoch + d.one_of(0, 5, 15, 25)
            columns = {"partition": 2, "leader_epoch": epoch if d.is_drawn(80) else None}
            if d.is_drawn(70):
                acks = d.one_of(1, 1, 1, -1)
                b.send(value, at=offset, acks=acks, partition=2, sent_ns=acked_ns - 3, done_ns=acked_ns)
            if d.is_drawn(20):
                b.read(value, at=offset, consumer=6, polled_ns=acked_ns + d.one_of(0, 30), **columns)
            if d.is_drawn(20):
                b.final(value, at=offset, polled_ns=90, isolation=setup.final_isolation, **columns)
            if d.is_drawn(20):
                b.replica(d.number(1, 3), value, at=offset, epoch=epoch, partition=2)
    for leader_epoch in (None, *d.numbers_between(0, 3)):
        # Half of them fall from the start, so that a record may be passed by a lower HW only.
        falls = d.is_drawn(50)
        for number in range(d.number(0, 4)):
            at_ns, high_watermark = d.number(1, 60), d.number(3, 8)
            if falls:
                at_ns, high_watermark = 10 + 15 * number, 9 - number
            b.served(high_watermark, epoch=leader_epoch, asked_ns=at_ns - 2, at_ns=at_ns, partition=2)


def _evidence(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """HWs of every source, logs of replicas, and who led."""
    partition = d.number(0, 1)
    for _ in range(d.number(0, 8)):
        asked = d.maybe(d.number(1, 40))
        b.served(
            d.number(0, 6),
            epoch=d.maybe(d.number(0, 9)),
            source=d.one_of("list_offsets", "list_offsets", "fetch", "checkpoint"),
            broker=d.number(1, 3),
            asked_ns=asked,
            at_ns=(asked or 0) + d.number(0, 10),
            partition=partition,
        )
    for broker in d.numbers_between(1, 3):
        b.checkpoint(broker, d.number(0, 6), partition=partition)
        for offset in d.numbers_between(0, 4):
            value = None if d.is_drawn(20) else d.number(1, 6)
            b.replica(broker, value, at=offset, epoch=epoch_of(offset, value), partition=partition)
    for epoch in d.numbers_between(0, 3):
        b.led_by(d.one_of(-1, 1, 2, 3), epoch=epoch, at_ns=d.number(1, 40), partition=partition)


def _draw_replicas(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw three replicas of a stretch over several blocks.

    They agree except for single rows, below a HW or above it.
    """
    partition, first = d.number(0, 1), d.one_of(0, 256)
    values = list(range(300, 300 + d.one_of(3, 70, 130)))
    for broker in (1, 2, 3):
        held = list(values)
        for place in d.numbers_between(0, 2) if d.is_drawn(40) else ():
            held[place] = 500 + broker * d.number(0, 1)
        b.replica(
            broker, *held[: len(held) - d.one_of(0, 0, 1, 2)], at=first, epoch=d.one_of(0, 0, 0, 1), partition=partition
        )
        b.checkpoint(broker, first + d.one_of(0, 1, 64, 1000), partition=partition)


def _draw_ends(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Log starts that moved, HWs and last stable offsets at the end, and what was read at the latter."""
    for partition in (0, 1):
        high_watermark = d.one_of(2, 7, 100, 1000)
        last_stable = d.one_of(None, None, min(d.offset(), high_watermark))
        log_start = d.one_of(0, 0, 2, 64, 130)
        b.end(partition=partition, log_start=log_start, high_watermark=high_watermark, last_stable=last_stable)
        if last_stable is not None:
            for consumer in d.one_of(
                (), (FINAL_CONSUMER,), (FINAL_CONSUMER, FINAL_CONSUMER), (FINAL_CONSUMER, 1), (1,)
            ):
                isolation = setup.final_isolation if consumer == FINAL_CONSUMER else "read_uncommitted"
                b.read(d.number(1, 6), at=last_stable, consumer=consumer, isolation=isolation, partition=partition)


def _left_out(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Partitions that the final read does not name."""
    for partition in d.numbers_between(0, 2):
        b.not_in_final_read(partition=partition)


def _draw_commits(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw commits of few groups, and answers of three coordinators in turn, some of which led no more.

    Times are few, so that commits and questions overlap.
    """
    for group in ("g", "h"):
        partition = d.number(0, 1)
        commits = {number: d.number(1, 3) for number in d.numbers_between(1, 5)}
        for number, offset in commits.items():
            asked_ns = d.number(1, 60)
            b.commit(
                number,
                offset,
                status=d.one_of("acked", "acked", "acked", "unknown", "failed"),
                group=group,
                partition=partition,
                asked_ns=asked_ns,
                done_ns=d.maybe(asked_ns + d.number(0, 10)),
            )
        for _ in range(d.number(0, 5)):
            asked_ns = d.number(1, 80)
            served = d.one_of(None, 9, *commits)
            offset = None if served is None else commits.get(served, 7)
            b.answer(
                None if served == 9 else served,
                offset,
                broker=d.one_of(1, 1, 2),
                group=group,
                partition=partition,
                asked_ns=asked_ns,
                done_ns=asked_ns + d.number(0, 5),
            )


def draw_group_reads(d: Draws, b: RecordBuilder, setup: Setup, first_member: int) -> None:
    """Draw a partition that two groups read in sessions and by resets; they leave some of it out."""
    first, second, other = members = range(first_member, first_member + MEMBERS)
    b.group(f"readers-{first}", first, second).group(f"others-{first}", other)
    at, columns = d.one_of(0, 60, 190), {"partition": 3}
    log = dict(enumerate(range(8, 8 + d.number(4, 12)), at))
    if d.is_drawn(50):
        b.led_by(1, epoch=0, at_ns=d.one_of(1, 1, 20), **columns)
    for offset, value in log.items():
        sent_ns = d.number(1, 60)
        if d.is_drawn(90):
            b.send(value, at=offset, sent_ns=sent_ns, done_ns=d.maybe(sent_ns + 5), **_outcome(d, setup), **columns)
        if d.is_drawn(90):
            final = {"leader_epoch": 0, "polled_ns": 200, "isolation": setup.final_isolation, **columns}
            b.final(value, at=offset, **final)
    if d.is_drawn(30):
        b.end(log_start=at + d.number(0, 4), **columns)
    if d.is_drawn(15):
        # Two records lie between these sessions: by chance alone, groups leave out few that they must get.
        for session, (consumer, offset) in enumerate(((first, at), (second, at + 3))):
            read = {"consumer": consumer, "session": session, "leader_epoch": 0, "polled_ns": 5 + 20 * session}
            b.read(log[offset], at=offset, **read, **columns)
        return
    is_known = d.is_drawn(80)
    for session in range(d.number(1, 5)):
        now, consumer, partitions = 5 + 20 * session, d.one_of(first, *members), d.one_of((0,), (3,), (0, 3))
        if is_known and d.is_drawn(70):
            b.assigned(consumer, *partitions, at_ns=now)
        begin = d.one_of(at, at + 2, at + d.number(0, len(log)))
        if d.is_drawn(30):
            b.reset(consumer, begin, partition=3, at_ns=now + 2)
        for number, offset in enumerate(range(begin, begin + d.one_of(0, 1, 3, 5))):
            if offset in log and d.is_drawn(90):
                value = log[offset] if d.is_drawn(95) else d.number(8, 19)
                read = {"consumer": consumer, "session": session, "leader_epoch": 0, "polled_ns": now + 3 + number}
                b.read(value, at=offset, **read, **columns)
        if is_known and d.is_drawn(50):
            b.assigned(consumer, *d.one_of((), partitions), event="revoked", at_ns=now + 10)


def _draw_copies(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw copies of few inputs by few groups; what was sent and read says which of them are visible.

    Some inputs surely have two copies that a read_committed consumer got, and some have none: by chance alone both are
    rare.
    """
    for value in d.numbers_between(1, 6):
        b.copy(value, of=d.number(0, 3), group=d.one_of("g", "g", "h"), partition=d.number(0, 1))
    if d.is_drawn(30):
        of, partition = d.number(0, 3), d.number(0, 1)
        for value in (1, 2):
            b.copy(value, of=of, group="g", partition=partition)
            b.read(value, at=d.offset(), partition=partition, session=value, isolation="read_committed")
    if d.is_drawn(20):
        columns = {"partition": d.number(0, 1)}
        b.copy(6, of=0, group="g", **columns).answer(None, 4, group="g", **columns)
        b.final(90, at=2, isolation=setup.final_isolation, **columns)
    for group in ("g", "h"):
        b.answer(None, d.number(1, 4), group=group, partition=d.number(0, 1))


PARTS: Parts = {
    _sends: 80,
    _polls: 90,
    _draw_agreeing_stretch: 50,
    _cut_off: 50,
    _evidence: 70,
    _elections: 50,
    _draw_replicas: 15,
    _draw_ends: 50,
    _left_out: 10,
    lambda d, b, setup: b.compacted(): 7,
    _draw_commits: 50,
    _draw_copies: 40,
}
"""The parts that are of no kind of anomaly alone."""
