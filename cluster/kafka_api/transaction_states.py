"""Asks a broker for the state of each transactional id that it coordinates."""

from __future__ import annotations

from kafka.protocol.admin import ListTransactionsRequest, ListTransactionsResponse

from cluster.kafka_api.connection import NONE, BrokerConnection, WireError

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
