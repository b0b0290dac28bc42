"""The state of a node, as displays and answers of the daemon show it."""

from __future__ import annotations

import msgspec


class NodeState(msgspec.Struct, frozen=True):
    """`state` is running, down, paused or not up; `registration` is a broker's newest one, None without any."""

    state: str
    registration: str | None = None

    def __str__(self) -> str:
        """Write both: `running, unfenced`."""
        return self.state if self.registration is None else f"{self.state}, {self.registration}"
