"""Finds the records that a store no longer needs: a night adds some hundred MB."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ebbtide.errors import UsageError
from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import read_manifest
from harness.nightly.store import FinishedJob
from harness.shrink.journal import JOURNAL
from harness.shrink.shrinking import STATE_DIR

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
        if journal.parent.name not in pending and _written_at(journal) < oldest:
            yield journal.parent


def _replayed_run(folder: Path) -> str | None:
    """Return the id of the run that a record is a replay of."""
    try:
        return read_manifest(RecordFolder(folder)).replay_of
    except UsageError:
        return None


def _written_at(path: Path) -> str:
    """Return when a file was last written, in the format of a night's name."""
    return f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y%m%dT%H%M%S}"
