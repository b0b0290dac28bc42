"""Healthy histories with anomalies of every kind, planted in known numbers.

Each kind is on a topic of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from anomaly_kinds import planters
from records import RecordBuilder

from analysis.reconcile.model import LostCommits, Reconciliation

Planted = dict[str, int]
"""Items by kind; those of commit-back that are not settled also apart."""

COORDINATORS = ((1, 0), (2, 30), (1, 45))
"""The brokers that coordinate every group of a run, and since when."""
NOT_SETTLED = "commit-back that is not settled"
_HEALTHY = 70
"""Records before what is planted: more than a block of offsets, so that some blocks agree and some do not."""


def healthy_history(builder: RecordBuilder, records: int = _HEALTHY) -> RecordBuilder:
    """Return a healthy history: its records are acked, read and in three logs.

    The HW grew.
    """
    values = range(records)
    builder.acked(*values, at=0).read(*values, at=0, leader_epoch=0).final(*values, at=0, leader_epoch=0)
    builder.led_by(1, epoch=0)
    for broker in (1, 2, 3):
        builder.replica(broker, *values).checkpoint(broker, records + 100)
    # Commits in turn, one set back, one without an outcome that was applied and one that was not.
    for commit, offset, status in ((1, 5, "acked"), (2, 9, "acked"), (3, 4, "acked"), (4, 7, "unknown")):
        builder.commit(commit, offset, status=status).answer(commit, offset)
    builder.commit(5, 8, status="unknown").answer(4, 7).commit(6, 20, status="failed").answer(4, 7)
    _add_healthy_commits(builder)
    return builder.served(1).served(records)


def _add_healthy_commits(b: RecordBuilder) -> None:
    """Add commits of groups, each of which looks lost to a rule that is almost right.

    Broker 1 coordinates from 0 on and has shown its HW by 6, broker 2 from 30 on, and broker 1 again from 45 on.
    """

    def commit(group: str, number: int, asked_ns: int, done_ns: int, status: str = "acked") -> None:
        b.commit(number, number * 10, group=group, asked_ns=asked_ns, done_ns=done_ns, status=status)

    def answer(group: str, number: int | None, asked_ns: int, done_ns: int, broker: int = 1) -> None:
        offset = None if number is None else number * 10
        b.answer(number, offset, group=group, asked_ns=asked_ns, done_ns=done_ns, broker=broker)

    commit("under way together", 1, 100, 200)
    commit("under way together", 2, 150, 160)
    answer("under way together", 2, 250, 260)
    answer("under way together", 1, 300, 310)
    commit("shown again", 1, 100, 110)
    commit("shown again", 2, 120, 130)
    answer("shown again", 1, 140, 150)
    answer("shown again", 2, 160, 170)
    commit("asked before the ack", 1, 100, 110)
    commit("asked before the ack", 2, 120, 200)
    answer("asked before the ack", 1, 150, 160)
    commit("asked together", 1, 100, 110)
    commit("asked together", 2, 120, 130, status="unknown")
    answer("asked together", 2, 140, 170)
    answer("asked together", 1, 150, 160)
    commit("not settled", 1, 1, 2)
    answer("not settled", None, 4, 5)
    commit("no coordinator", 1, 100, 110)
    answer("no coordinator", None, 120, 130, broker=2)
    commit("not yet coordinator", 1, 10, 12)
    answer("not yet coordinator", 1, 14, 15)
    answer("not yet coordinator", None, 27, 28, broker=2)
    commit("no more coordinator", 1, 10, 12)
    answer("no more coordinator", None, 29, 31)
    commit("applied late", 1, 100, 110, status="unknown")
    commit("applied late", 2, 120, 130)
    answer("applied late", 2, 140, 150)
    answer("applied late", 1, 160, 170)


def _plant_lost(b: RecordBuilder, n: int) -> Planted:
    b.acked(*range(100, 100 + n), at=_HEALTHY)
    return {"lost": n}


def _unseen(b: RecordBuilder, n: int) -> Planted:
    for number in range(n + 1):
        b.acked(100 + number, at=_HEALTHY + number).final(100 + number, at=_HEALTHY + number)
    b.read(100 + n, at=_HEALTHY + n)
    return {"unseen": n}


def _plant_vanished(b: RecordBuilder, n: int) -> Planted:
    b.read(*range(100, 100 + n), at=_HEALTHY)
    return {"vanished": n}


def _inconsistent(b: RecordBuilder, n: int) -> Planted:
    b.acked(*range(100, 100 + n), at=_HEALTHY).final(*range(200, 200 + n), at=_HEALTHY)
    return {"inconsistent-offset": n, "lost": n}


def _duplicate(b: RecordBuilder, n: int) -> Planted:
    b.final(*range(n), at=_HEALTHY)
    return {"duplicate": n}


def _aborted_read(b: RecordBuilder, n: int) -> Planted:
    for value in range(100, 100 + n):
        b.send(value, status="failed").final(value, at=_HEALTHY + value)
    return {"aborted-read": n}


def _dirty_order(b: RecordBuilder, n: int) -> Planted:
    for pair in range(n):
        for value, offset in ((2 * pair, 2 * pair + 1), (2 * pair + 1, 2 * pair)):
            b.acked(100 + value, at=_HEALTHY + offset).final(100 + value, at=_HEALTHY + offset)
    return {"dirty-order": n}


def _poll_skip(b: RecordBuilder, n: int) -> Planted:
    for number in range(n):
        b.read(3 * number + 2, at=3 * number + 2, consumer=2, prev_offset=3 * number, leader_epoch=0)
    return {"poll-skip": n}


def _hw_regression(b: RecordBuilder, n: int) -> Planted:
    for number in range(n):
        b.served(number)
    return {"hw-regression": n}


def _divergence(b: RecordBuilder, n: int) -> Planted:
    for number in range(n):
        b.replica(2, 100 + number, at=_HEALTHY + number).replica(3, 200 + number, at=_HEALTHY + number)
    return {"replica-divergence": n}


def _divergence_of_a_batch_appended_twice(b: RecordBuilder, n: int) -> Planted:
    """Return a divergence in a block of offsets of its own, each row twice.

    Both logs hold as many rows.
    """
    for number in range(n):
        for broker, value in ((2, 100 + number), (3, 200 + number)):
            b.replica(broker, value, at=640 + number).replica(broker, value, at=640 + number)
    b.checkpoint(2, 1_000).checkpoint(3, 1_000)
    return {"replica-divergence": n}


def _plant_damaged(b: RecordBuilder, n: int) -> Planted:
    for number in range(n):
        b.read(None, at=_HEALTHY + number, consumer=2).final(None, at=_HEALTHY + number)
    return {"damaged": n}


def _plant_lost_commits(b: RecordBuilder, n: int) -> Planted:
    for number in range(n):
        group = f"g{number}"
        b.commit(1, 10, group=group).answer(1, 10, group=group)
        b.commit(2, 20, group=group).answer(*((1, 10) if number % 2 else (None, None)), group=group)
        b.commit(3, 30, group=group).answer(3, 30, group=group)
    return {"commit-lost": n, "commit-back": (n + 1) // 2}


def _plant_fallen_commits(b: RecordBuilder, n: int) -> Planted:
    for number in range(n):
        group = f"g{number}"
        b.commit(1, 10, group=group).commit(2, 20, status="unknown", group=group)
        b.answer(2, 20, group=group).answer(1, 10, group=group).answer(1, 10, group=group)
    return {"commit-back": n}


def _plant_commits_gone_back_before_all_was_settled(b: RecordBuilder, n: int) -> Planted:
    """One of the two answers comes before its coordinator has shown its HW: the first one, or the second one."""
    for number in range(n):
        group, at_ns = f"g{number}", 10 * (number % 2)
        b.commit(1, 10, group=group, asked_ns=at_ns, done_ns=at_ns + 1)
        b.commit(2, 20, group=group, asked_ns=at_ns + 2, done_ns=None, status="unknown")
        if number % 2:
            b.answer(2, 20, group=group, asked_ns=20, done_ns=21)
            b.answer(1, 10, group=group, asked_ns=31, done_ns=32, broker=2)
        else:
            b.answer(2, 20, group=group, asked_ns=4, done_ns=5)
            b.answer(1, 10, group=group, asked_ns=20, done_ns=21)
    return {"commit-back": n, NOT_SETTLED: n}


def _plant_hanging_transactions(b: RecordBuilder, n: int) -> Planted:
    """An open transaction at the end of each of some partitions; on others the LSO is the HW, or nobody read above."""
    for number in range(n):
        columns = {"partition": 1 + number, "txn": 1, "txn_outcome": "aborted"}
        b.send(100 + number, at=5, status="unknown", **columns).final(100 + number, at=5, partition=1 + number)
        b.end(partition=1 + number, high_watermark=6, last_stable=5)
    b.acked(200, at=5, partition=50).final(200, at=5, partition=50)
    b.end(partition=50, high_watermark=6, last_stable=6)
    return {"hanging-transaction": n}


def _copied(b: RecordBuilder, value: int, *, of: int, outcome: str = "committed", **columns: Any) -> None:
    """A copy in a transaction with this outcome, at an offset of partition 9 that is its value."""
    b.copy(value, of=of, **columns).send(value, at=value, partition=9, txn=1, txn_outcome=outcome)


def _shown(b: RecordBuilder, *values: int, partition: int = 9) -> None:
    for value in values:
        columns = {"partition": partition, "isolation": "read_committed"}
        b.final(value, at=value, partition=partition).read(value, at=value, consumer=3, session=value, **columns)


def _plant_inputs_copied_twice(b: RecordBuilder, n: int) -> Planted:
    """Inputs with two copies; others have a second one that is aborted, in doubt, or of another group."""
    _shown(b, 0, _HEALTHY - 1, partition=0)
    for number in range(n + 3):
        _copied(b, 100 + number, of=number)
        _shown(b, 100 + number)
    for number in range(n):
        _copied(b, 200 + number, of=number, outcome="unknown" if number % 2 else "committed")
        if number % 2:
            _shown(b, 200 + number)
        else:
            b.final(200 + number, at=200 + number, partition=9)
    _copied(b, 300, of=n, outcome="aborted")
    _copied(b, 301, of=n + 1, outcome="unknown")
    # A consumer that gets an aborted copy has no second copy, but reads what was aborted.
    _shown(b, 300)
    b.final(301, at=301, partition=9)
    _copied(b, 302, of=n + 2, group="others")
    b.copy(302, of=n + 2, group="others")
    _shown(b, 302)
    b.answer(None, n + 3, group="copiers").answer(None, 0, group="others")
    return {"copied-twice": n, "aborted-read": 1}


def _plant_an_aborted_transaction(b: RecordBuilder, n: int) -> Planted:
    """Aborted records in a block whose acks are the final read: a read_committed consumer may pass over them."""
    values = range(100, 100 + _HEALTHY)
    for at, value in enumerate(values):
        b.send(value, at=at, partition=7, txn=3, txn_outcome="aborted" if 10 <= at < 10 + n else "committed")
    b.final(*values, at=0, partition=7)
    for begin, end in ((0, 10), (10 + n, _HEALTHY)):
        b.read(*values[begin:end], at=begin, partition=7, consumer=3, session=7, isolation="read_committed")
    return {}


def _plant_skipped_inputs(b: RecordBuilder, n: int) -> Planted:
    """Inputs without a copy, with one that is aborted, and with one that is in no log; then some that are copied."""
    # A read_committed consumer reads the partitions from their first records on.
    b.acked(199, at=199, partition=9).acked(397, at=397, partition=3)
    _shown(b, 199)
    _shown(b, 397, partition=3)
    _copied(b, 303, of=397, partition=3)
    for number in range(n):
        if number % 3:
            outcome = "aborted" if number % 3 == 1 else "committed"
            b.copy(200 + number, of=number)
            b.send(200 + number, at=None, status="unknown", partition=9, txn=1, txn_outcome=outcome)
        if number % 3 == 1:
            b.final(200 + number, at=200 + number, partition=9)
    _copied(b, 300, of=n, outcome="unknown")
    b.final(300, at=300, partition=9)
    _copied(b, 301, of=n + 1)
    _shown(b, 301)
    for value, outcome in ((399, "unknown"), (400, "aborted")):
        b.send(value, at=value, partition=3, txn=2, txn_outcome=outcome).final(value, at=value, partition=3)
    _copied(b, 302, of=401, partition=3)
    b.acked(401, at=401, partition=3)
    _shown(b, 401, partition=3)
    _shown(b, 302, 303)
    _shown(b, 0, _HEALTHY - 1, partition=0)
    b.answer(None, n + 2, group="copiers").answer(None, 1, group="copiers")
    b.answer(None, 402, group="copiers", partition=3)
    # A record that is in the final log no more is no input.
    b.read(398, at=398, consumer=5, partition=3)
    return {"input-skipped": n, "vanished": 1}


PLANTERS: tuple[Callable[[RecordBuilder, int], Planted], ...] = (
    lambda b, n: {},
    _plant_lost,
    _unseen,
    _plant_vanished,
    _inconsistent,
    _duplicate,
    _aborted_read,
    _dirty_order,
    _poll_skip,
    _hw_regression,
    _divergence,
    _divergence_of_a_batch_appended_twice,
    _plant_damaged,
    _plant_lost_commits,
    _plant_fallen_commits,
    _plant_commits_gone_back_before_all_was_settled,
    _plant_hanging_transactions,
    _plant_inputs_copied_twice,
    _plant_skipped_inputs,
    _plant_an_aborted_transaction,
    *planters(of_tables=True),
)


def _coordinated(builder: RecordBuilder) -> RecordBuilder:
    for epoch, (broker, at_ns) in enumerate(COORDINATORS):
        builder.coordinated_by(broker, epoch=epoch, at_ns=at_ns)
    return builder


def planted_run(dice: random.Random) -> tuple[RecordBuilder, dict[str, Planted]]:
    """A run with a topic a planter, and what must be found on each topic."""
    builder = _coordinated(RecordBuilder().transactions(one="CompleteAbort", other="Empty"))
    expected = {}
    for number, plant in enumerate((*PLANTERS, *planters(of_tables=False))):
        topic = f"{number}{plant.__name__.strip('<>')}"
        healthy_history(builder.on(topic, base=1_000 * number))
        expected[topic] = plant(builder, dice.randint(1, 20))
    return builder, expected


def run_with_commits_of_what_nobody_read() -> tuple[RecordBuilder, dict[str, Planted]]:
    """A run with a lost commit of a partition that the final read leaves out, and no item.

    Nothing is held against Kafka there: the topic, and its commits with it, may have been deleted.
    """
    builder = healthy_history(_coordinated(RecordBuilder()).on("unread"))
    builder.commit(1, 10, group="gone", partition=9).answer(None, None, group="gone", partition=9)
    return builder, {}


def by_topic(found: Reconciliation) -> dict[str, Planted]:
    counts: dict[str, Planted] = {}
    for one in found.anomalies:
        of_topic = counts.setdefault(one.topic, {})
        of_topic[one.kind] = of_topic.get(one.kind, 0) + one.count
    for group in found.groups_of(LostCommits):
        if not group.settled:
            of_topic = counts[group.topic]
            of_topic[NOT_SETTLED] = of_topic.get(NOT_SETTLED, 0) + group.count
    return counts
