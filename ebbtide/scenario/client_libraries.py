"""What a scenario may ask of each client library: its name, its settings, and what it cannot do.

A scenario sets only the settings in these lists. Others name files, code or addresses, and a record from somebody
else may hold any scenario.
"""

from __future__ import annotations

from typing import Literal

import msgspec

ClientLibrary = Literal["kafka-python", "librdkafka", "java"]
"""`librdkafka` is used through confluent-kafka, `java` through Kafka's own VerifiableProducer, with transactions
through a program of Ebbtide's."""

ConsumerLibrary = Literal["kafka-python", "librdkafka"]
"""The libraries that can also read."""

GroupProtocol = Literal["classic", "consumer"]
"""How a group shares its partitions: `consumer` is that of KIP-848, in which the coordinator assigns them."""

DEFAULT_LIBRARY: Literal["kafka-python"] = "kafka-python"
DEFAULT_GROUP_PROTOCOL: GroupProtocol = "classic"
OTHER_LIBRARIES: tuple[ClientLibrary, ...] = ("librdkafka", "java")


class LibraryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a library's producer takes and lacks.

    - `properties`: the settings that a scenario may set, by the library's own names.
    - `unsupported`: keys of a producer that the library's process cannot carry out, each with the reason.
    - `supported_in_transactions`: those of them that a transactional producer can carry out.
    """

    properties: frozenset[str] = frozenset()
    unsupported: dict[str, str] = {}
    supported_in_transactions: frozenset[str] = frozenset()


_NO_TRANSACTIONS = "transactions are sent with kafka-python and java only"
_TRANSACTION_KEYS = ("transactional", "txn_records", "abort_every", "fence_every", "abort_unacked")

LIBRARIES: dict[ClientLibrary, LibraryFacts] = {
    "kafka-python": LibraryFacts(),
    "librdkafka": LibraryFacts(
        properties=frozenset(
            {
                "batch.num.messages",
                "batch.size",
                "enable.gapless.guarantee",
                "max.in.flight.requests.per.connection",
                "message.send.max.retries",
                "message.timeout.ms",
                "request.timeout.ms",
                "retry.backoff.max.ms",
                "retry.backoff.ms",
                "socket.timeout.ms",
                "topic.metadata.refresh.interval.ms",
            }
        ),
        unsupported=dict.fromkeys(_TRANSACTION_KEYS, _NO_TRANSACTIONS),
    ),
    "java": LibraryFacts(
        properties=frozenset(
            {
                "batch.size",
                "buffer.memory",
                "delivery.timeout.ms",
                "max.block.ms",
                "max.in.flight.requests.per.connection",
                "metadata.max.age.ms",
                "request.timeout.ms",
                "retries",
                "retry.backoff.max.ms",
                "retry.backoff.ms",
            }
        ),
        unsupported={"payload_bytes": "VerifiableProducer chooses the payload: the producer's id and a running number"},
        supported_in_transactions=frozenset({"payload_bytes"}),
    ),
}
