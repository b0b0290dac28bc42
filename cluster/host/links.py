"""Directed pairs of nodes: cuts, limits, and counts of what was sent over them."""

from __future__ import annotations

import msgspec


class Cut(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Packets from `source` to `target` are dropped, in this direction only.

    Both are node ids, or `CLIENTS`.
    """

    source: int
    target: int


class LimitCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel counted for a limited pair since it was limited.

    `passed_bytes` passed; the full queue dropped `dropped_packets`.
    """

    passed_bytes: int
    dropped_packets: int


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """A number of bytes sent at once, and how many arrived.

    The last one arrived `took_s` after the first was sent. Where not all arrived, `took_s` is the time waited.
    """

    sent_bytes: int
    arrived_bytes: int
    took_s: float
