"""What a scenario may ask of each client library: its name, and what it cannot do."""

from __future__ import annotations

from typing import Literal

import msgspec

from ebbtide.scenario.kafka_settings import Place

ClientLibrary = Literal["kafka-python", "librdkafka", "java"]
"""`librdkafka` is used through confluent-kafka, `java` through a Java program of Ebbtide's."""

ConsumerLibrary = Literal["kafka-python", "librdkafka"]
"""The libraries that can also read."""

GroupProtocol = Literal["classic", "consumer"]
"""How a group shares its partitions: `consumer` is that of KIP-848, in which the coordinator assigns them."""

DEFAULT_LIBRARY: Literal["kafka-python"] = "kafka-python"
DEFAULT_GROUP_PROTOCOL: GroupProtocol = "classic"
OTHER_LIBRARIES: tuple[ClientLibrary, ...] = ("librdkafka", "java")


class LibraryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a library's producer takes and lacks.

    - `settings`: the place of its settings in `kafka_settings.txt`.
    - `unsupported`: keys of a producer that the library's process cannot carry out, each with the reason.
    """

    settings: Place = "kafka-python"
    unsupported: dict[str, str] = {}


_NO_TRANSACTIONS = "transactions are sent with kafka-python and java only"
_TRANSACTION_KEYS = ("transactional", "txn_records", "abort_every", "fence_every", "abort_unacked")

LIBRARIES: dict[ClientLibrary, LibraryFacts] = {
    "kafka-python": LibraryFacts(),
    "librdkafka": LibraryFacts(
        settings="librdkafka",
        unsupported=dict.fromkeys(_TRANSACTION_KEYS, _NO_TRANSACTIONS),
    ),
    "java": LibraryFacts(settings="producer"),
}
