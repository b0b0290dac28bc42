"""What people say to a watch that is going on: marks, and the word to end.

`ebbtide watch mark TEXT` appends a line to a file in the record, and the watch makes a step of it. The time is that at
which the command was typed. `--events` appends a line for each Kubernetes event, with the time of the event.

Kubernetes events as marks of a watch: what Chaos Mesh, an operator or the kubelet did, and when.

The input is what `kubectl get events -o json` prints. Chaos Mesh reports its experiments as such events.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from ebbtide.errors import UsageError
from ebbtide.record.files import RecordFolder, is_going
from ebbtide.record.manifest import FOREIGN, is_record, list_records, read_manifest, records_of
from ebbtide.record.steps import StepEntry
from ebbtide.shown_text import escape_controls
from ebbtide.untrusted.values import decode_json

MARKS = "marks.jsonl"
TEXT_MAX = 200
MARKS_MAX = 10_000
MARK = "mark"
"""The word in steps.jsonl for what somebody said; no kind of step."""


class WatchNote(msgspec.Struct, frozen=True, kw_only=True):
    """One line: a mark with its `text`, or without one the word to end the watch.

    `by`: who said it; None: somebody, with the command.
    """

    at_ns: int
    text: str | None = None
    by: str | None = None


def say(record: RecordFolder, text: str | None) -> None:
    """Tell the watch of a record something now. Raises `UsageError` where no watch goes on."""
    pass_on(record, [WatchNote(at_ns=time.time_ns(), text=text)])


def pass_on(record: RecordFolder, notes: Sequence[WatchNote]) -> int:
    """Pass notes on to the watch of a record, except those from before it began; returns how many were passed on.

    Raises `UsageError` where no watch goes on.
    """
    if not is_going(record) or read_manifest(record).runtime != FOREIGN:
        raise UsageError("no watch goes on in this record", where=str(record), next=list_records(record.path))
    began_ns = read_manifest(record).start_ns or 0
    of_the_watch = [one for one in notes if one.at_ns >= began_ns]
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in of_the_watch)
    # One write with O_APPEND: several commands may speak at once.
    descriptor = os.open(record / MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, lines)
    finally:
        os.close(descriptor)
    return len(of_the_watch)


def watch_going_on(runs: Path) -> RecordFolder:
    """Return the record of the watch that goes on in a folder of records, or the record itself.

    Raises `UsageError` if there is none, or several.
    """
    if is_record(runs):
        return RecordFolder(runs)
    going = [
        one for one in map(RecordFolder, records_of(runs)) if is_going(one) and read_manifest(one).runtime == FOREIGN
    ]
    if len(going) != 1:
        folder = str(going[0] if going else runs)
        raise UsageError(
            "no watch goes on here" if not going else "several watches go on here",
            where=str(runs),
            got=", ".join(map(str, going)) or None,
            allowed="one watch, or its record by --runs RUN",
            next=("" if going else "ebbtide watch --bootstrap HOST:PORT --for 30m ") + f"--runs {shlex.quote(folder)}",
        )
    return going[0]


class MarkReader:
    """Reads what was said since the last call."""

    def __init__(self, record: RecordFolder) -> None:
        self._path = record / MARKS
        self._position = 0
        self._known: set[WatchNote] = set()
        self.entries: list[StepEntry] = []
        """The marks so far, as entries of steps.jsonl."""
        self.is_ended = False
        """Whether somebody said to end the watch."""

    def poll(self) -> bool:
        """Read what is new; returns whether there are new marks."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = file.read()
        except FileNotFoundError:
            return False
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        before = len(self.entries)
        for line in whole.splitlines():
            try:
                note = msgspec.json.decode(line, type=WatchNote)
            except msgspec.DecodeError:
                continue
            if note.text is None:
                self.is_ended = True
            elif note not in self._known and len(self.entries) < MARKS_MAX:
                # The same event is in several lists that somebody passed on.
                self._known.add(note)
                self.entries.append(_entry(len(self.entries), note))
        return len(self.entries) > before


def _entry(index: int, note: WatchNote) -> StepEntry:
    return StepEntry(
        index=index,
        step=MARK,
        whom=note.text,
        fired_ns=note.at_ns,
        effect_ns=note.at_ns,
        proof={"probe": "ok", "said": f"by {note.by or '`ebbtide watch mark`'}"},
        parameters={"text": note.text},
    )


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
