"""The ledger of a run: what it made outside its folder, and how that is undone.

There is one file a run, `<run_id>.jsonl` in a folder of the host. Its first line says which process runs the run. That
process holds a lock on the file, which every namespace of processes and of time sees alike.
Then follows one line for each thing, fsynced before the thing exists, and one line when the thing was undone. Leaving
the `with` block undoes everything, last in, first out: after success, failure, Ctrl-C and SIGTERM. After a SIGKILL
`ebbtide clean` reads the file and does the same (`cluster.clean`). Every undo may be repeated, and touches only what
its entry names.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import msgspec

from cluster.host.containers import Container
from cluster.host.namespaces import Namespace
from cluster.host.processes import OwnedProcess, ProcessId, identify
from cluster.host.slow_volume import Slowness
from cluster.host.volumes import Volume
from cluster.host.writeback import KernelWriteBack, WriteBackHold
from cluster.watched.watch_topic import PREFIX, WatchTopic
from ebbtide.errors import HarnessError, UsageError, error_in_one_line
from ebbtide.ownership import Untrusted, make_private_folder, open_private, read_private
from ebbtide.places import state_dir
from ebbtide.record.files import RUN_ID_ALLOWED, is_run_id
from ebbtide.signals import defer_signals, unwind_on_signals

Entry = Namespace | Volume | Slowness | WriteBackHold | KernelWriteBack | OwnedProcess | Container | WatchTopic
"""Every kind of ledger entry; each has `undo() -> bool` (idempotent) and `describe() -> str`."""


_NO_FILE = (errno.ELOOP, errno.ENXIO, errno.ENODEV)
"""What opening something else than a file ends with: a link, a socket, a device."""


class LedgerOpened(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="opened"):
    """The first line of a ledger: the run, and the harness process that runs it."""

    run_id: str
    owner: ProcessId
    folder: str


class EntryMade(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="made"):
    """The line for a thing that is about to be made."""

    number: int
    entry: Entry


class EntryUndone(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="undone"):
    """Return the line for a thing that was removed, or was never made."""

    number: int


Line = LedgerOpened | EntryMade | EntryUndone


def ledgers_dir() -> Path:
    """Return the folder of ledgers: the host's for root, else the user's own.

    Does not create it.
    """
    if os.geteuid() == 0:
        return Path("/run/ebbtide/ledger")
    session = os.environ.get("XDG_RUNTIME_DIR")
    return Path(session, "ebbtide/ledger") if session else state_dir() / "ledger"


def shared_dir(ledgers: Path) -> Path:
    """Return the folder for state that several runs share (the write-back hold).

    It is a sibling of the folder of ledgers.
    """
    return ledgers.parent / "shared"


class Ledger:
    """The ledger of a live run. Thread-safe.

    Use it as a context manager, in the thread that gets signals.
    """

    def __init__(self, path: Path, run_id: str, file: int) -> None:
        """Private: use `Ledger.open`."""
        self.path = path
        self.run_id = run_id
        self._file = file
        self._lock = threading.RLock()
        self._entries: dict[int, Entry] = {}
        self._next = 0
        self._closed = False
        self._unwinding = unwind_on_signals()

    @classmethod
    def open(cls, run_id: str, folder: Path, *, ledgers: Path | None = None) -> Ledger:
        """Begin the ledger of run `run_id`, whose run folder is `folder`.

        Raises `UsageError` for a run id that cannot name things, `HarnessError` when a ledger of that name exists
        already or the folder of ledgers cannot be written.
        """
        if not is_run_id(run_id):
            raise UsageError(
                "a run id must be usable in names of namespaces and files", got=repr(run_id), allowed=RUN_ID_ALLOWED
            )
        home = ledgers or ledgers_dir()
        path = home / f"{run_id}.jsonl"
        part = home / f".{run_id}.{os.getpid()}.part"
        opened = LedgerOpened(run_id=run_id, owner=identify(os.getpid()), folder=str(folder.absolute()))
        file = -1
        try:
            make_private_folder(home)
            file = open_private(part, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            os.write(file, msgspec.json.encode(opened) + b"\n")
            with contextlib.suppress(OSError):  # without locks, the process alone says whether the run is live
                fcntl.flock(file, fcntl.LOCK_EX)
            # Linked under its name only when it is complete: `clean` never meets a ledger without its first line.
            os.link(part, path)
            return cls(path, run_id, file)
        except FileExistsError:
            if file >= 0:
                os.close(file)
            raise HarnessError(
                "a run of this id is in the ledger already",
                where=str(path),
                next="ebbtide clean    (undoes what dead runs left), or give the run another id",
            ) from None
        except OSError as error:
            if file >= 0:
                os.close(file)
            raise HarnessError("cannot write the ledger", where=str(home), got=error.strerror) from None
        finally:
            part.unlink(missing_ok=True)

    def record(self, entry: Entry) -> None:
        """Write down `entry`, durably. Call it before the thing is made.

        Raises `HarnessError` when the ledger is closed.
        """
        with self._lock:
            if self._closed:
                raise HarnessError("the ledger is closed", where=str(self.path), got=entry.describe())
            self._write(EntryMade(number=self._next, entry=entry))
            self._entries[self._next] = entry
            self._next += 1

    def make(self, entry: Entry, action: Callable[[], None]) -> None:
        """Write down `entry`, then make the thing by `action`.

        A thing that `action` leaves half-made is undone on close. A `FileExistsError` means that the name belongs to
        someone else: the entry is removed at once, so that nothing foreign is ever undone, and a `HarnessError` says
        so.
        """
        self.record(entry)
        try:
            action()
        except FileExistsError as error:
            self.forget(entry)
            raise HarnessError(
                "a name that this run needs is taken", where=str(error.filename), got=entry.describe()
            ) from None

    def forget(self, entry: Entry) -> None:
        """Remove `entry` without undoing it: the thing is gone, or was never made."""
        with self._lock:
            for number in [number for number, known in self._entries.items() if known == entry]:
                self._write(EntryUndone(number=number))
                del self._entries[number]

    def undo(self, entry: Entry) -> None:
        """Undo `entry` now and remove it.

        Raises what the entry's undo raises; the entry then stays.
        """
        entry.undo()
        self.forget(entry)

    def entries(self) -> list[Entry]:
        """Return the entries that are made and not undone, oldest first."""
        with self._lock:
            return list(self._entries.values())

    def close(self) -> None:
        """Undo every entry, last first; a failure does not stop the others. Idempotent.

        Raises `HarnessError` that names what could not be undone; it then stays in the ledger for `clean`.
        """
        with defer_signals(), self._lock:
            if self._closed:
                return
            failures = []
            for entry in reversed(self.entries()):
                try:
                    self.undo(entry)
                except Exception as error:  # whatever fails, the others are undone
                    failures.append(f"{entry.describe()}: {error_in_one_line(error)}")
            self._closed = True
            os.close(self._file)
            if failures:
                raise HarnessError("not everything could be undone", got="; ".join(failures), next="ebbtide clean")
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> Ledger:
        self._unwinding.__enter__()
        atexit.register(self.close)  # an interrupt may come just before `__exit__`
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        finally:
            atexit.unregister(self.close)
            self._unwinding.__exit__(kind, error, traceback)

    def _write(self, line: Line) -> None:
        os.write(self._file, msgspec.json.encode(line) + b"\n")
        os.fsync(self._file)


class LedgerFile(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger as read from disk: its first line, and its entries, oldest first.

    Entries that were undone are left out.
    """

    path: Path
    opened: LedgerOpened
    entries: tuple[Entry, ...]


class DamagedLedger(HarnessError):
    """A ledger that cannot be believed or read as a whole.

    `opened` is its first line, if that can be read.
    """

    opened: LedgerOpened | None = None


def read_ledger(path: Path) -> LedgerFile:
    """Read a ledger, also of a run that was killed in the middle of a line.

    Raises `FileNotFoundError`, `HarnessError` when the host cannot read the file now, and `DamagedLedger` when another
    user could have written the file, it is damaged elsewhere or of another version, or it names what no run of its id
    makes.
    """
    try:
        content = read_private(path)
    except FileNotFoundError:
        raise
    except (OSError, MemoryError, Untrusted) as error:
        if isinstance(error, Untrusted) or getattr(error, "errno", None) in _NO_FILE:
            raise DamagedLedger("a ledger cannot be believed", where=str(path), got=str(error)) from None
        got = getattr(error, "strerror", None) or "no memory"
        raise HarnessError("a ledger cannot be read now", where=str(path), got=got, next="ebbtide clean") from None
    opened: LedgerOpened | None = None
    entries: dict[int, Entry] = {}
    # A last line without its newline was never acknowledged: its thing was not made.
    lines = content.split(b"\n")[:-1]
    for number, text in enumerate(lines, 1):
        try:
            line = msgspec.json.decode(text, type=Line)
            match line:
                case LedgerOpened():
                    if opened is not None or line.run_id != path.stem or not is_run_id(line.run_id):
                        raise ValueError(f"a first line of run {line.run_id!r}")
                    opened = line
                case EntryMade():
                    check_entry(line.entry, path.stem)
                    entries[line.number] = line.entry
                case EntryUndone():
                    entries.pop(line.number, None)
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            damaged = DamagedLedger("a ledger cannot be read", where=f"{path}, line {number}", got=str(error))
            damaged.opened = opened
            raise damaged from None
    if opened is None:
        raise DamagedLedger("a ledger does not say which run it belongs to", where=str(path))
    return LedgerFile(path=path, opened=opened, entries=tuple(entries.values()))


def check_entry(entry: Entry, run_id: str) -> None:
    """Raise `ValueError` for an entry that no run of this id makes."""
    match entry:
        case Namespace():
            name = entry.name.removeprefix(f"ebbtide-{run_id}")
            is_own = name == "" or re.fullmatch(r"-[A-Za-z0-9]+", name) is not None
        case Volume() | Slowness():
            is_own = all(_is_plain_path(one) for one in (entry.image, entry.folder))
        case WriteBackHold() | KernelWriteBack():
            is_own = entry.run_id == run_id and all(_is_plain_path(one) for one in (entry.shared, entry.settings))
        case OwnedProcess():
            is_own = entry.run_id == run_id and 1 < entry.process.pid < 1 << 31
        case Container():
            is_own = entry.run_id == run_id
        case WatchTopic():
            is_own = entry.run_id == run_id and entry.name.startswith(PREFIX) and bool(entry.bootstrap)
    if not is_own:
        raise ValueError(f"no run {run_id} makes: {entry.describe()}")


def _is_plain_path(text: str) -> bool:
    return text.startswith("/") and "\0" not in text and ".." not in Path(text).parts
