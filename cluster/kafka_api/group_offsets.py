"""Asks coordinators what groups have committed, and in which states transactions are."""

from __future__ import annotations

import msgspec
from kafka.protocol.admin import ListTransactionsRequest, ListTransactionsResponse
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from cluster.kafka_api.connection import NONE, BrokerConnection, WireError
from ebbtide.logs.segments import TopicPartition

_VERSION = 0


def transaction_states(broker: BrokerConnection) -> dict[str, str]:
    """Send ListTransactions v0; return the states by transactional id, in Kafka's words.

    Raises `WireError`, also if the broker still loads its part of the transaction log.
    """
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    answer = broker.ask(request, ListTransactionsResponse, _VERSION)
    if answer.error_code != NONE:
        raise WireError(f"{broker.address} answers ListTransactions with error {answer.error_code}")
    return {item.transactional_id: item.transaction_state for item in answer.transaction_states}


_OFFSET_FETCH_VERSION = 5


class CommittedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """What a group has committed for one partition; `metadata` is the text that the commit carried."""

    offset: int
    metadata: str


def committed_offsets(connection: BrokerConnection, group: str) -> dict[TopicPartition, CommittedOffset] | None:
    """Send OffsetFetch v5 for every partition of a group; partitions without a commit are left out.

    None: the broker is not the group's coordinator, or cannot answer for the group now. Raises `WireError`.
    """
    request = OffsetFetchRequest(group_id=group, topics=None)
    response = connection.ask(request, OffsetFetchResponse, _OFFSET_FETCH_VERSION)
    partitions = [(topic.name, one) for topic in response.topics for one in topic.partitions]
    if response.error_code != NONE or any(one.error_code != NONE for _, one in partitions):
        return None
    return {
        TopicPartition(topic, one.partition_index): CommittedOffset(
            offset=one.committed_offset, metadata=one.metadata or ""
        )
        for topic, one in partitions
        if one.committed_offset >= 0
    }
