"""Asks every replica for its own HW, until each has the final one.

A follower learns of the final HW with its next fetch from the leader. Its broker writes the HW to
`replication-offset-checkpoint` up to 5 s later (`replica.high.watermark.checkpoint.interval.ms`), so that the answer is
there sooner than the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from cluster.kafka_api.connection import Refused, WireError
from cluster.kafka_api.replica_log import read_replica
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.manifest import FinalOffsets
from ebbtide.waiting import WaitExpired, wait_until
from workloads.config import AnsweredHighWatermarks, Endpoints
from workloads.reaching import connection_to

ASKING_S = 8.0
_ANSWER_S = 1.0
_NAMED_MAX = 5


def ask_high_watermarks(
    endpoints: Endpoints,
    brokers: Mapping[int, str],
    replicas: Mapping[str, Sequence[int]],
    ends: Mapping[str, FinalOffsets],
    is_stopped: Callable[[], bool] = lambda: False,
) -> AnsweredHighWatermarks:
    """Ask until each of the `replicas` of a `topic-partition` has the HW of its `ends`, for about `ASKING_S` at most.

    `brokers` has their addresses.
    """
    wanted = {
        (broker, TopicPartition.parse(name)): end.high_watermark
        for name, end in ends.items()
        for broker in replicas.get(name, ())
    }
    reached: dict[int, dict[str, int]] = {}
    behind = dict.fromkeys(wanted, "was not asked")
    until = time.monotonic() + ASKING_S

    def ask_broker(broker: int) -> None:
        with connection_to(endpoints, brokers[broker], request_timeout_s=_ANSWER_S) as connection:
            for at in [at for one, at in behind if one == broker]:
                try:
                    # Nothing is above the final HW, so that the answer has no records.
                    found = read_replica(connection, at, wanted[broker, at]).high_watermark
                except Refused as error:
                    behind[broker, at] = f"answers {error}"
                except WireError as error:
                    behind[broker, at] = f"cannot be asked ({error})"
                    return
                else:
                    behind[broker, at] = f"has the HW {found}, not {wanted[broker, at]}"
                    if found == wanted[broker, at]:
                        reached.setdefault(broker, {})[str(at)] = found
                        del behind[broker, at]

    def have_all_reached() -> bool:
        for broker in dict.fromkeys(broker for broker, _ in behind):
            if is_stopped() or time.monotonic() > until:
                break
            ask_broker(broker)
        return not behind or is_stopped()

    def say_behind() -> str:
        named = [f"{at} on broker {broker} {why}" for (broker, at), why in behind.items()]
        more = f"; and {len(named) - _NAMED_MAX} more" if len(named) > _NAMED_MAX else ""
        return "; ".join(named[:_NAMED_MAX]) + more

    try:
        wait_until(have_all_reached, awaited="the final HW on every replica", timeout_s=ASKING_S, last_seen=say_behind)
    except WaitExpired as error:
        return AnsweredHighWatermarks(reached=reached, why_not_all=str(error))
    return AnsweredHighWatermarks(reached=reached)
