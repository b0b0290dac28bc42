"""What became of the records that a producer of the user's own sent through published ports."""

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
