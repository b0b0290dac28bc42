"""Holds the question that a cause answers, and the answer."""

from __future__ import annotations

from typing import Any

import msgspec

from analysis.record.elections import ElectionEvent
from ebbtide.record.verdict import Cause

Row = dict[str, Any]
"""One piece of evidence, as verdict.json lists it."""


class LostOffset(msgspec.Struct, frozen=True, kw_only=True):
    """An offset that a leader must have lost: it was acked or served, and is missing.

    It was acked or served at `since_ns`, under an epoch of at most `since_epoch`. `until_epoch`
    bounds the guilty election from above; None: any later election. `exact`: the record itself says
    that it was appended under `since_epoch`, so no election up to that epoch is guilty.
    """

    topic: str
    partition: int
    offset: int
    committed: bool
    since_ns: int
    since_epoch: int
    until_epoch: int | None = None
    exact: bool = False

    @property
    def name(self) -> str:
        """The partition as `topic-partition`."""
        return f"{self.topic}-{self.partition}"


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """A cause with its election, and the reason in a sentence; cause None: not known.

    `is_allowed`: whatever the cause, every history that fits the evidence allows it. `breaks_kip_903`: unexplained
    because a broker joined the ISR without its log although KIP-903 was in force.
    """

    cause: Cause | None
    election: ElectionEvent | None
    why: str
    is_allowed: bool = False
    breaks_kip_903: bool = False
