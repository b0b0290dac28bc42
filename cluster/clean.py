"""Undoes what dead runs left on the host, by their ledgers.

Live runs and everything else stay as they are. Containers outlive the ledgers' folder at a reboot; they are found by
their labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from cluster.host.containers import abandoned_containers
from cluster.host.ledger import Entry, ledgers_dir, read_ledger
from cluster.host.processes import is_alive
from ebbtide.errors import EbbtideError
from ebbtide.locks import await_lock
from ebbtide.ownership import check_trusted
from ebbtide.scratch import remove_abandoned

LOCK_TIMEOUT_S = 180.0
"""More than another `clean` needs to undo the largest cluster."""


class CleanOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one ledger.

    `live`: its run continues, and nothing was touched. `undone`: the things that existed and were removed. `failed`:
    for each thing that stays, why.
    """

    run_id: str
    live: bool = False
    undone: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def clean(ledgers: Path | None = None, *, forget: bool = False) -> list[CleanOutcome]:
    """Undo every ledger whose harness is dead, newest entry first.

    An entry that cannot be undone stays in its ledger. With `forget` the ledger is deleted anyway, for example when
    the daemon of its containers is gone for good. Without `ledgers`, the ledgers of this host are undone, and the
    temporary folders of judgings that were killed are removed too.
    """
    home = ledgers or ledgers_dir()
    by_ledger = []
    if home.is_dir():
        check_trusted(home)
        with await_lock(home / ".lock", purpose="another `ebbtide clean` to end", timeout_s=LOCK_TIMEOUT_S):
            by_ledger = [_clean_one(path, forget) for path in sorted(home.glob("*.jsonl"))]
    found = by_ledger + [
        _undo_entries(container.run_id, [container])
        for container in abandoned_containers(known=[one.run_id for one in by_ledger])
    ]
    folders = remove_abandoned() if ledgers is None else []
    if folders:
        found.append(CleanOutcome(run_id="judging", undone=tuple(f"temporary folder {folder}" for folder in folders)))
    return found


def _clean_one(path: Path, forget: bool) -> CleanOutcome:
    try:
        ledger = read_ledger(path)
    except FileNotFoundError:  # the run ended between the listing and the reading
        return CleanOutcome(run_id=path.stem)
    except EbbtideError as error:
        return CleanOutcome(run_id=path.stem, failed=(str(error),))
    if is_alive(ledger.opened.owner):
        return CleanOutcome(run_id=ledger.opened.run_id, live=True)
    outcome = _undo_entries(ledger.opened.run_id, ledger.entries)
    if forget or not outcome.failed:
        path.unlink(missing_ok=True)
    return outcome


def _undo_entries(run_id: str, entries: Sequence[Entry]) -> CleanOutcome:
    undone, failed = [], []
    for entry in reversed(entries):
        try:
            if entry.undo():
                undone.append(entry.describe())
        except (OSError, EbbtideError) as error:
            failed.append(f"{entry.describe()}: {error}")
    return CleanOutcome(run_id=run_id, undone=tuple(undone), failed=tuple(failed))
