"""The folder that nights share: their records, and one line for each run that was judged.

DIR/runs/RUN_ID/            run records
DIR/history.jsonl           `Done`, one a line, in the order in which they were judged
DIR/nights/NIGHT/plan.json  what a night was to do, and when it ended
DIR/nights/NIGHT/...        its summary.md and junit.xml
DIR/lock                    held by the night that is under way; says which process that is
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from ebbtide.errors import UsageError
from ebbtide.locks import holding
from ebbtide.record.files import write_atomically
from ebbtide.record.json_files import append_line, read_lines
from ebbtide.record.verdict import Outcome
from harness.nightly.job import Job

Ended = Outcome | Literal["failed"]
"""How a job ended; `failed`: the harness or its host did, and there may be no record."""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A job that the host cannot do, and what it lacks."""

    job: Job
    why: str


class NightPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a night does: equal `settings`, the same. `ended_s` None: it is under way, or was killed."""

    night: str
    settings: dict[str, str]
    started_s: float
    ended_s: float | None = None
    skipped: tuple[Skipped, ...] = ()


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A job that ran. `causes` counts lost records by cause; `harness_mib` is the harness's memory afterwards.

    `known_bug`: what the scenario names as the reason for this contradiction.
    """

    night: str
    job: Job
    run_id: str | None
    ended: Ended
    why: tuple[str, ...] = ()
    causes: dict[str, int] = {}
    coverage: dict[str, int] = {}
    seed: int | None = None
    took_s: float = 0.0
    ended_at_s: float = 0.0
    harness_mib: int = 0
    known_bug: str | None = None

    @property
    def expected(self) -> bool:
        """Whether nobody has to look at it."""
        return self.ended == "as-predicted" or self.known_bug is not None


class Followup(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one contradiction. `same` of `times` replays ended as the record did.

    `smaller`: the file that shrinking wrote, of `steps` where the record has `steps_before`; `failure`: why not.
    `settled` false: the host failed, or the time was over; another night goes on with it.
    """

    run_id: str
    times: int = 0
    same: int = 0
    smaller: str | None = None
    steps: int | None = None
    steps_before: int | None = None
    failure: str | None = None
    settled: bool = True
    took_s: float = 0.0

    def told(self) -> str:
        """In a clause."""
        parts = [f"came again in {self.same} of {self.times} replays"] if self.times else []
        if self.smaller is not None:
            parts.append(f"{self.steps} of {self.steps_before} steps are enough: `{self.smaller}`")
        if self.failure is not None:
            parts.append(f"not shrunk: {self.failure}")
        if not self.settled:
            parts.append("the next night goes on with it")
        return ", ".join(parts)


class Store:
    """A store on disk; made when it is not there. Raises `UsageError` where it cannot be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        self._history = folder / "history.jsonl"
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                "the store cannot be made",
                where=str(folder),
                got=error.strerror,
                allowed="a folder to write in",
                next="name another folder with --store DIR",
            ) from None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Held by this process; the kernel lets go, however it ends. Raises `UsageError` where another holds it."""
        with holding(
            self.folder,
            busy="another night is under way in this store",
            unlockable="the store cannot be locked",
            next="wait until it has ended, end it with kill, or take another --store",
        ):
            yield

    def night_folder(self, night: str) -> Path:
        """Where a night keeps its own files."""
        return self.folder / "nights" / night

    def save(self, plan: NightPlan) -> None:
        """Write down what a night does, or that it ended."""
        path = self.night_folder(plan.night) / "plan.json"
        write_atomically(path, msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n")

    def unfinished(self) -> NightPlan | None:
        """The newest night, if it did not end."""
        plans = sorted(self.folder.glob("nights/*/plan.json"))
        newest = msgspec.json.decode(plans[-1].read_bytes(), type=NightPlan) if plans else None
        return newest if newest is not None and newest.ended_s is None else None

    def append(self, done: Done) -> None:
        """Add a line, whole and durable."""
        append_line(self._history, msgspec.json.encode(done) + b"\n")

    def history(self) -> list[Done]:
        """All that was done, oldest first; not a last line without its end. Raises `UsageError` for other damage."""
        return read_lines(self._history, Done, what="history", next="take the line out, or another store")

    def followups(self, night: str) -> list[Followup]:
        """What a night did about its contradictions."""
        path = self.night_folder(night) / "followups.json"
        return msgspec.json.decode(path.read_bytes(), type=list[Followup]) if path.is_file() else []

    def append_followup(self, night: str, followup: Followup) -> None:
        """Keep one more."""
        all_ = [*self.followups(night), followup]
        write_atomically(self.night_folder(night) / "followups.json", msgspec.json.encode(all_))

    def all_followups(self) -> list[Followup]:
        """What all nights did, oldest first."""
        nights = sorted(path.parent.name for path in self.folder.glob("nights/*/followups.json"))
        return [one for night in nights for one in self.followups(night)]
