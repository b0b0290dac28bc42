"""The bugs that are planted, as `bugs.toml` lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

KAFKA = "4.3.1"
"""The release whose classes the bugs hook."""

TABLE = Path(__file__).with_name("bugs.toml")

Area = Literal["controller", "leader", "follower", "log", "kraft", "group", "transactions", "producer-state"]


class Bug(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bug, with the keys of `bugs.toml`."""

    name: str
    changes: str
    hooks: tuple[str, ...]
    area: Area
    source: str | None = None
    scenarios: tuple[str, ...]
    shows: str
    decides: str | None = None

    @property
    def agent_class(self) -> str:
        """The name of the agent's class that plants it."""
        return "".join(word.capitalize() for word in self.name.split("-"))


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bugs: tuple[Bug, ...]


def read_bugs() -> dict[str, Bug]:
    """Return all bugs by their names, in the order of the table."""
    return {bug.name: bug for bug in msgspec.toml.decode(TABLE.read_bytes(), type=_Table).bugs}
