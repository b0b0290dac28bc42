"""Asks every replica for its own HW, until each has the final one.

A follower learns of the final HW with its next fetch from the leader. Its broker writes the HW to
`replication-offset-checkpoint` up to 5 s later (`replica.high.watermark.checkpoint.interval.ms`), so that the answer is
there sooner than the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster.kafka_api.connection import BrokerConnection, WireError
from cluster.kafka_api.replica_log import ReplicaRefused, read_replica
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.manifest import FinalOffsets
from ebbtide.waiting import WaitExpired, wait_until
from workloads.config import Endpoints, ReplicaMarks
from workloads.reaching import connection_to

MARKS_S = 8.0


def ask_replica_marks(
    endpoints: Endpoints,
    brokers: Mapping[int, str],
    replicas: Mapping[str, Sequence[int]],
    ends: Mapping[str, FinalOffsets],
) -> ReplicaMarks:
    """Ask until each of the `replicas` of a `topic-partition` has the HW of its `ends`, for `MARKS_S` at most.

    `brokers` has their addresses.
    """
    wanted = {
        (broker, TopicPartition.parse(name)): end.high_watermark
        for name, end in ends.items()
        for broker in replicas.get(name, ())
    }
    reached: dict[int, dict[str, int]] = {broker: {} for broker, _ in wanted}
    behind: dict[tuple[int, TopicPartition], str] = dict.fromkeys(wanted, "was not asked")

    def have_all_reached() -> bool:
        for broker in dict.fromkeys(broker for broker, _ in behind):
            partitions = [at for one, at in behind if one == broker]
            with connection_to(endpoints, brokers[broker]) as connection:
                for at in partitions:
                    high_watermark = wanted[broker, at]
                    if why := _why_behind(connection, at, high_watermark):
                        behind[broker, at] = why
                    else:
                        reached[broker][str(at)] = high_watermark
                        del behind[broker, at]
        return not behind

    try:
        wait_until(
            have_all_reached,
            awaited="the final HW on every replica",
            timeout_s=MARKS_S,
            last_seen=lambda: "; ".join(f"{at} on broker {broker} {why}" for (broker, at), why in behind.items()),
        )
    except WaitExpired as error:
        return ReplicaMarks(reached=reached, why_not_all=str(error))
    return ReplicaMarks(reached=reached)


def _why_behind(connection: BrokerConnection, at: TopicPartition, high_watermark: int) -> str | None:
    """Return why a replica is not known to have this HW; None: it has it."""
    try:
        # Nothing is above the final HW, so that the answer has no records.
        found = read_replica(connection, at, high_watermark).high_watermark
    except (WireError, ReplicaRefused) as error:
        return f"answers {error}"
    return None if found == high_watermark else f"has the HW {found}, not {high_watermark}"
