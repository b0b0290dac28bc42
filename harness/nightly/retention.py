"""What a store no longer needs: without it, every night would leave some hundred MB behind."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ebbtide.errors import UsageError
from ebbtide.record.manifest import read_manifest
from harness.nightly.store import Done
from harness.shrink.journal import JOURNAL
from harness.shrink.shrinking import STATE_DIR

_RECORD = re.compile(r"\d{8}T\d{6}-.+")
"""How records are named: by when they were begun, as nights are."""


def stale(runs: Path, history: Sequence[Done], *, night: str, keep: int, pending: Collection[str]) -> Iterator[Path]:
    """The folders among the records that may go when `night` has ended.

    Kept is all that the last `keep` nights ran; of older runs, those that contradicted or proved nothing. What no line
    of the history is about, runs that were cut short and replays, goes by its age, and so does what shrinking left;
    but for what follow-ups of the runs `pending` go on from.
    """
    nights = sorted({one.night for one in history})
    kept = nights[-keep:] if keep else []
    oldest = kept[0] if kept else night
    known = {one.run_id: one for one in history if one.run_id is not None}
    for folder in sorted(path for path in runs.iterdir() if _RECORD.fullmatch(path.name) and path.is_dir()):
        done = known.get(folder.name)
        if done is not None:
            goes = done.ended in ("as-predicted", "failed") and done.night not in kept
        else:
            goes = folder.name < oldest and _replayed(folder) not in pending
        if goes:
            yield folder
    for journal in sorted(runs.glob(f"{STATE_DIR}/*/{JOURNAL}")):
        if journal.parent.name not in pending and _stamp(journal) < oldest:
            yield journal.parent


def _replayed(folder: Path) -> str | None:
    """The run that this one is a replay of."""
    try:
        return read_manifest(folder).replay_of
    except UsageError:
        return None


def _stamp(path: Path) -> str:
    """When a file was written last, as nights are named."""
    return f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y%m%dT%H%M%S}"
