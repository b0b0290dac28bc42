"""A healthy history, to which the kinds of anomalies add items."""

from __future__ import annotations

from records import RecordBuilder

COORDINATORS = ((1, 0), (2, 30), (1, 45))
"""The brokers that coordinate every group of a run, and since when."""
HEALTHY = 70
"""Records before what is planted: more than a block of offsets, so that some blocks agree and some do not."""


def healthy_history(builder: RecordBuilder, records: int = HEALTHY) -> RecordBuilder:
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
