"""What a record says of a user's own clients: how far their traffic was recorded, and what became of their records."""

from __future__ import annotations

import msgspec


class OwnProducer(msgspec.Struct, frozen=True, kw_only=True):
    """The acked records of one `client.id` on one partition with one `acks` (-1 is all), and how many are gone.

    `why` says what is known of the loss, and what Kafka promises; null: nothing is gone.
    """

    client: str | None
    acks: int
    topic: str
    partition: int
    acked: int
    lost: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    why: str | None = None

    def __str__(self) -> str:
        """Return the loss as a sentence."""
        acks = "all" if self.acks == -1 else str(self.acks)
        records = f"{self.lost:,} record{'s' if self.lost > 1 else ''} of {self.topic}-{self.partition}"
        fate = "that are lost" if self.lost > 1 else "that is lost"
        name = "no client.id" if self.client is None else f"client.id {self.client}"
        return f"your producer ({name}, acks={acks}) got acks for {records} {fate}: {self.why}"


class WireFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the table `wire` rests on: the traffic of published ports, as far as it was recorded.

    - `why_incomplete` says why the table is missing, or lacks rows; null: it has all that the recorded APIs said.
    - `unrecorded`: how many requests of other APIs passed, by their names.
    - `unread` says in words what could not be read, with its count.
    - `no_final_read` says for each `topic-partition` that was not read at the end, why.
    - `waited_s` is how long clients were slowed for lack of room, over all connections.
    """

    why_incomplete: str | None = None
    unrecorded: dict[str, int] = {}
    unread: dict[str, int] = {}
    no_final_read: dict[str, str] = {}
    waited_s: float = 0.0
