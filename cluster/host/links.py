"""Directed pairs of nodes: those that are cut, those that are limited, and what was sent over them."""

from __future__ import annotations

import msgspec


class Cut(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Packets from `source` to `target` (node ids, or `CLIENTS`) are dropped. One direction only."""

    source: int
    target: int


class Limited(msgspec.Struct, frozen=True, kw_only=True):
    """What passed a limited pair since it was limited, and what its full queue dropped, as the kernel counts them."""

    passed_bytes: int
    dropped_packets: int


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes sent at once, and those that arrived, the last one `took_s` after the first was sent.

    Where not all arrived, `took_s` is how long they were waited for.
    """

    sent_bytes: int
    arrived_bytes: int
    took_s: float
