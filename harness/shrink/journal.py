"""The journal of a shrink, so that a killed shrink can continue.

Each line is a decided candidate. The search is deterministic: started again, it tests the same candidates in the
same order. Those that the journal knows need no run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ebbtide.errors import HarnessError
from ebbtide.locks import hold_lock
from ebbtide.record.files import append_line
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.write import text_of
from ebbtide.untrusted.files import read_file
from ebbtide.untrusted.values import decode_json

JOURNAL = "journal.jsonl"


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Make and lock the folder of a shrink.

    Two shrinks in it would remove each other's clusters and records. Raises `LockUnavailable` if another
    shrink holds the lock, and `HarnessError` if the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from None
    with hold_lock(
        folder,
        busy="another shrink of this run is under way",
        unlockable="the state of the shrink cannot be locked",
        next="wait until it has ended, or end it with kill; then the same command continues it",
    ):
        yield


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a candidate shows the finding, and why not.

    `ran`: the decision took a real run; `record`: the folder of that run, if it was kept.
    """

    shows: bool
    why: str = ""
    ran: bool = True
    took_s: float = 0.0
    record: str | None = None


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    what: str
    decision: Decision
    way: str = ""


class Journal:
    """The decisions of one shrink, by candidate; makes `folder`.

    `way` describes how the candidates are run. Decisions by runs of another way are kept, but not used.
    """

    def __init__(self, folder: Path, *, way: str = "") -> None:
        self.folder = folder
        self.way = way
        self._path = folder / JOURNAL
        self._known: dict[str, Decision] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(self._path, error) from None
        has_lines = os.path.lexists(self._path)
        content = read_file(self._path, what="the state of the shrink") if has_lines else b""
        lines = content.splitlines(keepends=True)
        for line in lines:
            # The last line may have been cut short by a kill.
            with contextlib.suppress(msgspec.DecodeError):
                entry = decode_json(line, _Line)
                if entry.way == way:
                    self._known[entry.key] = entry.decision
        self._torn = bool(lines) and not lines[-1].endswith(b"\n")

    def get(self, key: str) -> Decision | None:
        """Return the earlier decision about a candidate, or None."""
        return self._known.get(key)

    def put(self, key: str, what: str, decision: Decision) -> None:
        """Write a decision; it is synced when this returns.

        Raises `HarnessError` if it cannot be written.
        """
        self._known[key] = decision
        line = msgspec.json.encode(_Line(key=key, what=what, decision=decision, way=self.way)) + b"\n"
        try:
            append_line(self._path, b"\n" + line if self._torn else line)
        except OSError as error:
            raise _unusable(self._path, error) from None
        self._torn = False

    def runs(self) -> list[Decision]:
        """Return the decisions that took a real run."""
        return [one for one in self._known.values() if one.ran]

    def key_of(self, scenario: Scenario, time: int = 0) -> str:
        """Return the key of a candidate in the journal.

        The key depends on the scenario, its way to run and its repetition `time`.
        """
        text = f"{self.way}\n{text_of(scenario)}"
        return hashlib.sha256(text.encode()).hexdigest()[:16] + (f"-{time}" if time else "")


def _unusable(path: Path, error: OSError) -> HarnessError:
    return HarnessError("the state of the shrink cannot be kept", where=str(path), got=str(error))
