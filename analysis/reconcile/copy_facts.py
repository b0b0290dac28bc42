"""Counts the rows of copies by what copied what: the facts of copiers."""

from __future__ import annotations

import msgspec


class CopyFacts(msgspec.Struct, frozen=True):
    """Copies of one partition's records to one topic, by the copiers of one group."""

    topic: str
    partition: int
    group: str
    copied_to: str
    rows: int
