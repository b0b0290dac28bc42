"""Ends of Kafka processes that a page of docs/findings/ explains, recognised by their logs."""

from __future__ import annotations

import re

import msgspec


class KnownEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A finding by the name of its page, and what a log says at such an end and at no other."""

    finding: str
    says: re.Pattern[str]

    @property
    def page(self) -> str:
        """The path of the page."""
        return f"docs/findings/{self.finding}.md"


KNOWN_ENDS: tuple[KnownEnd, ...] = (
    KnownEnd(
        finding="empty-metadata-log",
        # A node without any voter: others may be unattached, too, but know whom to ask.
        says=re.compile(r"IllegalStateException: Expected to be Follower, but .* Unattached(State)?\(.*\bvoters=\[\]"),
    ),
)


def known_end_clause(log: str) -> str:
    """Return the finding and its page, as the end of a sentence about a node that ended; empty if none is known."""
    found = next((one for one in KNOWN_ENDS if one.says.search(log)), None)
    return "" if found is None else f", a known finding: {found.finding} ({found.page})"


_SAYS_FULL = re.compile(r"No space left on device|Disk quota exceeded")


def ended_on_full_volume(log: str) -> bool:
    """Whether the last lines of a node's log say that it could not write for lack of space."""
    return _SAYS_FULL.search(log) is not None
