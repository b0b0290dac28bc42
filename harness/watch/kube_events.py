"""Kubernetes events as marks of a watch: what Chaos Mesh, an operator or the kubelet did, and when.

The input is what `kubectl get events -o json` prints. Chaos Mesh reports its experiments as such events.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from ebbtide.errors import UsageError
from ebbtide.shown_text import escape_controls
from ebbtide.untrusted.values import decode_json
from harness.watch.marks import TEXT_MAX, WatchNote

SAID_BY = "Kubernetes, in an event"
_KUBECTL = "kubectl get events -o json"


class _Involved(msgspec.Struct, frozen=True):
    kind: str = "object"
    name: str = ""


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    """An event of the API v1. Which of the times there is depends on the component that reported it."""

    involved_object: _Involved = _Involved()
    reason: str | None = None
    message: str | None = None
    event_time: datetime | None = None
    last_timestamp: datetime | None = None
    first_timestamp: datetime | None = None

    def note(self) -> WatchNote | None:
        """Return the event as a mark; None for an event without a time."""
        at = self.event_time or self.last_timestamp or self.first_timestamp
        if at is None:
            return None
        about = f"{self.involved_object.kind} {self.involved_object.name}".strip()
        text = escape_controls(": ".join(one for one in (about, self.reason, self.message) if one))
        cut = text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 3]}..."
        # Whole microseconds: a float has too few digits for nanoseconds.
        return WatchNote(at_ns=round(at.timestamp() * 1e6) * 1000, text=cut, by=SAID_BY)


class _EventList(msgspec.Struct, frozen=True):
    items: tuple[_Event, ...]


def notes_of(content: bytes, where: str) -> list[WatchNote]:
    """Return the events as marks, the oldest first; those without a time are left out.

    Raises `UsageError` if `content` is not what kubectl prints.
    """
    try:
        events = decode_json(content, _EventList).items
    except msgspec.DecodeError as error:
        raise UsageError(
            "not a list of Kubernetes events", where=where, got=str(error), allowed=f"what `{_KUBECTL}` prints"
        ) from None
    notes = [note for note in (event.note() for event in events) if note is not None]
    return sorted(notes, key=lambda note: note.at_ns)
