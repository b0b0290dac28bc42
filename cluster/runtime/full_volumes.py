"""Recognises, by its log, a node that ended because its volume was full."""

from __future__ import annotations

import re

_SAYS_FULL = re.compile(r"No space left on device|Disk quota exceeded")


def ended_on_full_volume(log: str) -> bool:
    """Whether the last lines of a node's log say that it could not write for lack of space."""
    return _SAYS_FULL.search(log) is not None
