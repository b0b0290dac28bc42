"""The store: a folder that nights share, with their records and history.

DIR/runs/RUN_ID/                  run records
DIR/history.jsonl                 one `FinishedJob` a line, in the order in which they were judged
DIR/nights/NIGHT/plan.json        `NightPlan`: what a night does, and when it ended
DIR/nights/NIGHT/followups.json   `Followup` of each contradiction that the night followed up
DIR/nights/NIGHT/...              its summary.md, junit.xml and runs.log
DIR/random/TARGET/corpus.jsonl    random schedules and what their runs reached
DIR/lock                          locked by the night that is under way; names its process
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from ebbtide.errors import UsageError
from ebbtide.locks import hold_lock
from ebbtide.record.files import RUN_ID_PATTERN, RecordFolder, append_line, read_lines, write_atomically
from ebbtide.record.manifest import read_manifest
from ebbtide.record.outcomes import word_of
from ebbtide.record.verdict import Outcome, PredictionKind
from ebbtide.untrusted.files import read_file
from ebbtide.untrusted.values import decode_json
from harness.nightly.job import Job
from harness.shrink.journal import JOURNAL
from harness.shrink.running import STATE_DIR

T = TypeVar("T")

StoredName = Annotated[str, msgspec.Meta(pattern=rf"^(?:{RUN_ID_PATTERN})\Z")]
"""The name of a night or of a run. Folders are named by it, so it cannot lead out of the store."""

JobEnd = Outcome | Literal["failed"]
"""How a job ended.

`failed`: the harness or its host failed, and there may be no record. Or something outside of the run ended it early,
and its record decides nothing.
"""


class SkippedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of the catalogue that did not run, and why: the host cannot run it, or the night ended first."""

    job: Job
    why: str


class NightPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a night does; a start with equal `settings` continues it.

    `ended_s` is None while the night is under way, and after it was killed.
    """

    night: StoredName
    settings: dict[str, str]
    started_s: float
    ended_s: float | None = None
    skipped: tuple[SkippedJob, ...] = ()


OF_OWN_CLIENTS = "sent by your clients"


class FinishedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that ran, as a line of the history.

    `causes` counts lost records by cause (those of own clients have `OF_OWN_CLIENTS`), and `commits` lost commits of
    groups. `harness_mib` is the harness's memory after the run. `known_bug` is the bug that the scenario names as the
    reason for this contradiction. `figures` has texts for JUnit, by name: the longest times without service, and the
    age of the oldest lost record.
    `prediction` and `lost_committed` are those of the verdict.
    """

    night: StoredName
    job: Job
    run_id: StoredName | None
    ended: JobEnd
    why: tuple[str, ...] = ()
    causes: dict[str, int] = {}
    commits: dict[str, int] = {}
    coverage: dict[str, int] = {}
    seed: int | None = None
    took_s: float = 0.0
    ended_at_s: float = 0.0
    harness_mib: int = 0
    known_bug: str | None = None
    figures: dict[str, str] = {}
    prediction: PredictionKind = "made"
    lost_committed: int = 0

    @property
    def word(self) -> str:
        """How the run ended, as people read it."""
        return self.ended if self.ended == "failed" else word_of(self.ended, self.prediction)

    @property
    def is_expected(self) -> bool:
        """Whether the run ended as predicted, or contradicted by a known bug."""
        return self.ended == "as-predicted" or self.known_bug is not None


class Followup(msgspec.Struct, frozen=True, kw_only=True):
    """The result of following up one contradiction.

    `same` of `times` replays ended as the record did.

    `smaller` is the scenario file that shrinking wrote; it has `steps` steps, the record has `steps_before`,
    and `kept` are the indices of those in the record.
    `failure` says why there is no such file. `settled` is false if the host failed or the time ended: the next night
    continues the follow-up.
    """

    run_id: StoredName
    times: int = 0
    same: int = 0
    smaller: str | None = None
    steps: int | None = None
    steps_before: int | None = None
    kept: tuple[int, ...] = ()
    failure: str | None = None
    settled: bool = True
    took_s: float = 0.0

    def describe(self) -> str:
        """Describe the result in one line."""
        parts = [f"reproduced in {self.same} of {self.times} replays"] if self.times else []
        if self.smaller is not None:
            which = f" ({', '.join(map(str, self.kept))})" if self.kept else ""
            parts.append(f"{self.steps} of {self.steps_before} steps are enough{which}: `{self.smaller}`")
        if self.failure is not None:
            parts.append(f"not shrunk: {self.failure}")
        if not self.settled:
            parts.append("the next night continues this follow-up")
        return ", ".join(parts)


class Store:
    """A store on disk; made if it is missing.

    Raises `UsageError` if it cannot be made.
    """

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
                allowed="a folder that you can write to",
                next="name another folder with --store DIR",
            ) from None

    def check(self) -> None:
        """Read everything that a night will read. Raises `UsageError` for damage, before a run starts."""
        self.history()
        self.unfinished_night()
        self.all_followups()

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the store for this process.

        Raises `UsageError` if another night holds the lock.

        The kernel releases the lock when the process ends, in whatever way.
        """
        with hold_lock(
            self.folder,
            busy="another night is under way in this store",
            unlockable="the store cannot be locked",
            next="wait until that night has ended, end it with kill, or use another --store",
        ):
            yield

    def night_folder(self, night: str) -> Path:
        """Return the folder of a night's own files."""
        return self.folder / "nights" / night

    def corpora_folder(self) -> Path:
        """Return the folder of the corpora."""
        return self.folder / "random"

    def save_plan(self, plan: NightPlan) -> None:
        """Write a night's plan.json."""
        path = self.night_folder(plan.night) / "plan.json"
        write_atomically(path, msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n")

    def unfinished_night(self) -> NightPlan | None:
        """Return the plan of the newest night if that night did not end."""
        plans = sorted(self.folder.glob("nights/*/plan.json"))
        newest = _read(plans[-1], NightPlan) if plans else None
        return newest if newest is not None and newest.ended_s is None else None

    def append_job(self, done: FinishedJob) -> None:
        """Append a line to the history; the line is whole and synced when this returns."""
        append_line(self._history, msgspec.json.encode(done) + b"\n")

    def history(self) -> list[FinishedJob]:
        """Return all finished jobs, oldest first, without a last line that was cut off.

        Raises `UsageError` for other damage.
        """
        return read_lines(self._history, FinishedJob, what="history", next="remove the line, or use another store")

    def followups(self, night: str) -> list[Followup]:
        """Return the follow-ups of a night, oldest first."""
        path = self.night_folder(night) / "followups.json"
        return _read(path, list[Followup]) if os.path.lexists(path) else []

    def append_followup(self, night: str, followup: Followup) -> None:
        """Add a follow-up to those of a night."""
        all_ = [*self.followups(night), followup]
        write_atomically(self.night_folder(night) / "followups.json", msgspec.json.encode(all_))

    def all_followups(self) -> list[Followup]:
        """Return the follow-ups of all nights, oldest first."""
        nights = sorted(path.parent.name for path in self.folder.glob("nights/*/followups.json"))
        return [one for night in nights for one in self.followups(night)]


def _read(path: Path, kind: type[T]) -> T:
    """Return what a JSON file of the store says. Raises `UsageError`."""
    content = read_file(path, what="a file of the store")
    try:
        return decode_json(content, kind)
    except msgspec.DecodeError as error:
        raise UsageError(
            "a file of the store is damaged",
            where=str(path),
            got=str(error),
            next=f"remove the folder {path.parent}, or use another store",
        ) from None


_RECORD = re.compile(r"\d{8}T\d{6}-.+")
"""The name of a record begins with its start time in UTC, as the name of a night does."""


def stale_folders(
    runs: Path, history: Sequence[FinishedJob], *, night: str, keep: int, pending: Collection[str]
) -> Iterator[Path]:
    """Yield the record folders that can be removed after `night` has ended.

    Keeps the records of the last `keep` nights, and of older nights the contradicted and inconclusive ones. Records
    that the history does not list (interrupted runs, replays) and the folders of shrinks are removed by age. Keeps
    every record and folder that a follow-up of one of the runs `pending` still needs.
    """
    nights = sorted({one.night for one in history})
    kept = nights[-keep:] if keep else []
    oldest = kept[0] if kept else night
    known = {one.run_id: one for one in history if one.run_id is not None}
    for folder in sorted(path for path in runs.iterdir() if _RECORD.fullmatch(path.name) and path.is_dir()):
        done = known.get(folder.name)
        if done is not None:
            is_stale = done.ended in ("as-predicted", "failed") and done.night not in kept
        else:
            is_stale = folder.name < oldest and _replayed_run(folder) not in pending
        if is_stale:
            yield folder
    for journal in sorted(runs.glob(f"{STATE_DIR}/*/{JOURNAL}")):
        if journal.parent.name in pending:
            continue
        # Compared in the format of a night's name.
        if f"{datetime.fromtimestamp(journal.stat().st_mtime, UTC):%Y%m%dT%H%M%S}" < oldest:
            yield journal.parent


def _replayed_run(folder: Path) -> str | None:
    """Return the id of the run that a record is a replay of."""
    try:
        return read_manifest(RecordFolder(folder)).replay_of
    except UsageError:
        return None
