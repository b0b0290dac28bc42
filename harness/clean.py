"""Undoes what dead runs left on the host, by their ledgers; live runs and everything else stay as they are."""

from __future__ import annotations

from pathlib import Path

import msgspec
from filelock import FileLock

from harness.errors import EbbtideError
from harness.host.processes import is_alive
from harness.ledger import ledgers_dir, read_ledger


class Cleaned(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one ledger. `undone` are things that were there; `failed` why a thing stays."""

    run_id: str
    live: bool = False
    undone: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def clean(ledgers: Path | None = None) -> list[Cleaned]:
    """Undo every ledger whose harness is dead, newest entry first; what failed stays in its ledger."""
    home = ledgers or ledgers_dir()
    if not home.is_dir():
        return []
    with FileLock(home / ".lock"):
        return [_clean_one(path) for path in sorted(home.glob("*.jsonl"))]


def _clean_one(path: Path) -> Cleaned:
    try:
        ledger = read_ledger(path)
    except FileNotFoundError:  # its run ended between the listing and the reading
        return Cleaned(run_id=path.stem)
    except EbbtideError as error:
        return Cleaned(run_id=path.stem, failed=(str(error),))
    if is_alive(ledger.opened.owner):
        return Cleaned(run_id=ledger.opened.run_id, live=True)
    undone, failed = [], []
    for entry in reversed(ledger.standing):
        try:
            if entry.undo():
                undone.append(entry.describe())
        except (OSError, EbbtideError) as error:
            failed.append(f"{entry.describe()}: {error}")
    if not failed:
        path.unlink(missing_ok=True)
    return Cleaned(run_id=ledger.opened.run_id, undone=tuple(undone), failed=tuple(failed))
