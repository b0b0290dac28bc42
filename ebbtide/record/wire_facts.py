"""What the table `wire` of a record rests on, as the manifest has it."""

from __future__ import annotations

import msgspec


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
