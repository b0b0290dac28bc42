"""Undoes what dead runs left on the host, by their ledgers.

Live runs and everything else stay as they are. Containers outlive the ledgers' folder at a reboot; they are found by
their labels.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cluster.host.containers import abandoned_containers
from cluster.host.ledger import DamagedLedger, Entry, LedgerOpened, ledgers_dir, read_ledger
from cluster.host.processes import is_alive
from ebbtide.daemon.control import remove_dead_sockets
from ebbtide.errors import HarnessError, error_in_one_line
from ebbtide.locks import await_lock, is_held
from ebbtide.ownership import check_trusted
from ebbtide.scratch import remove_abandoned

_DAMAGED = ".damaged"
"""The suffix of a damaged ledger that was set aside."""
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

    An entry that cannot be undone stays in its ledger. A ledger that is damaged is set aside and named each time; one
    that the host cannot read now stays; all others are undone. With `forget` all three are deleted anyway, for example
    when the daemon of their containers is gone for good. Without `ledgers`, the ledgers of this host are undone, and
    the control sockets of dead daemons and the temporary folders of killed judgings, builds of images, fetches and
    doctors are removed too.

    Raises `EbbtideError` for a folder of ledgers that another user may write, or whose lock is held.
    """
    home = ledgers or ledgers_dir()
    by_ledger = []
    if os.path.lexists(home):
        check_trusted(home)
        with await_lock(home / ".lock", purpose="another `ebbtide clean` to end", timeout_s=LOCK_TIMEOUT_S):
            by_ledger = [_clean_damaged(path, forget) for path in sorted(home.glob(f"*{_DAMAGED}"))]
            by_ledger += [_clean_one(path, forget) for path in sorted(home.glob("*.jsonl"))]
    found = by_ledger + [
        _undo_entries(container.run_id, [container])
        for container in abandoned_containers(known=[one.run_id for one in by_ledger])
    ]
    folders = remove_abandoned() if ledgers is None else {}
    sockets = _dead_sockets() if ledgers is None else []
    if sockets:
        undone = tuple(f"control socket {path} of a cluster whose daemon is dead" for path in sockets)
        found.append(CleanOutcome(run_id="clusters", undone=undone))
    if folders:
        found.append(CleanOutcome(run_id="scratch", undone=tuple(map(_describe_folder, folders.items()))))
    return found


def _describe_folder(item: tuple[Path, tuple[int, ...]]) -> str:
    folder, killed = item
    processes = f", and in it process {', '.join(map(str, killed))}" if killed else ""
    return f"temporary folder {folder}{processes}"


def _dead_sockets() -> list[Path]:
    with contextlib.suppress(HarnessError):  # this user has no home folder, and so no clusters
        return remove_dead_sockets()
    return []


def killed_runs(ledgers: Path | None = None) -> list[str]:
    """Return the ids of runs whose harness was killed, and that left things which `clean` has not undone."""
    found = []
    for path in sorted((ledgers or ledgers_dir()).glob("*.jsonl")):
        opened: LedgerOpened | None = None
        try:
            opened = read_ledger(path).opened
        except DamagedLedger as error:
            opened = error.opened
        except (OSError, HarnessError):  # it has just ended, or is another user's
            continue
        if not _is_live(path, opened):
            found.append(path.stem)
    return found


def describe_leftovers(ledgers: Path | None = None) -> str:
    """Return that no killed run left anything on this host. Raises `HarnessError` with the runs that did."""
    if found := killed_runs(ledgers):
        raise HarnessError(
            "killed runs left processes, volumes or settings on this host", got=", ".join(found), next="ebbtide clean"
        )
    return "no killed run left anything"


def _clean_one(path: Path, forget: bool) -> CleanOutcome:
    try:
        ledger = read_ledger(path)
    except FileNotFoundError:  # the run ended between the listing and the reading
        return CleanOutcome(run_id=path.stem)
    except DamagedLedger as error:
        if _is_live(path, error.opened):
            return CleanOutcome(run_id=path.stem, live=True)
        return _set_aside(path, error, forget)
    except HarnessError as error:
        return _leave_for_later(path, error, forget)
    if _is_live(path, ledger.opened):
        return CleanOutcome(run_id=ledger.opened.run_id, live=True)
    outcome = _undo_entries(ledger.opened.run_id, ledger.entries)
    if forget or not outcome.failed:
        path.unlink(missing_ok=True)
    return outcome


def _is_live(path: Path, opened: LedgerOpened | None) -> bool:
    """Whether the run of a ledger continues.

    Its lock says so in every namespace. A run on a file system without locks has none.
    """
    return is_held(path) is True or (opened is not None and is_alive(opened.owner))


def _leave_for_later(path: Path, error: HarnessError, forget: bool) -> CleanOutcome:
    """Report a ledger that the host cannot read now; with `forget` delete it, unless its run continues."""
    if is_held(path):
        return CleanOutcome(run_id=path.stem, live=True)
    if forget:
        path.unlink(missing_ok=True)
    return CleanOutcome(run_id=path.stem, failed=(error.in_one_line(),))


def _set_aside(path: Path, error: DamagedLedger, forget: bool) -> CleanOutcome:
    """Rename a damaged ledger, or delete it with `forget`; what it names stays on the host."""
    said = error.in_one_line()
    if forget:
        path.unlink(missing_ok=True)
        return CleanOutcome(run_id=path.stem, failed=(said,))
    aside = path.with_suffix(_DAMAGED)
    os.replace(path, aside)
    return CleanOutcome(run_id=path.stem, failed=(f"{said}; set aside as {aside}",))


def _clean_damaged(path: Path, forget: bool) -> CleanOutcome:
    """Report a ledger that was set aside earlier, or delete it with `forget`."""
    if forget:
        path.unlink(missing_ok=True)
    return CleanOutcome(run_id=path.stem, failed=(f"what a damaged ledger names: {path}",))


def _undo_entries(run_id: str, entries: Sequence[Entry]) -> CleanOutcome:
    undone, failed = [], []
    for entry in reversed(entries):
        try:
            if entry.undo():
                undone.append(entry.describe())
        except Exception as error:  # whatever an entry says, the others are undone
            failed.append(f"{entry.describe()}: {error_in_one_line(error)}")
    return CleanOutcome(run_id=run_id, undone=tuple(undone), failed=tuple(failed))
