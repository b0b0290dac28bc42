"""What a record folder may hold, and what its manifest may say.

Both are checked before anything else of the record is read: everything else is then made for what is possible.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ebbtide.errors import UsageError
from ebbtide.record.clients import CLIENTS_DIR
from ebbtide.record.files import (
    ANOMALIES_DIR,
    CLOCK_FILE,
    JOURNAL_DIR,
    LOGS_DIR,
    QUORUM_FILE,
    RAW_DIR,
    WIRE_FILE,
    WITNESS_DIR,
    RecordFolder,
)
from ebbtide.untrusted.files import special_kind

_FILES = frozenset(
    {"manifest.json", "scenario.toml", "steps.jsonl", "evidence.json", "verdict.json", "report.html", "SHA256SUMS"}
    | {CLOCK_FILE, QUORUM_FILE, WIRE_FILE}
)
_FOLDERS = frozenset({RAW_DIR, JOURNAL_DIR, ANOMALIES_DIR, WITNESS_DIR, LOGS_DIR})
_DEPTH_MAX = 20
_SHOWN_MAX = 200
_NOT_READ = frozenset({"kept", "cluster"})
"""Folders of a record that no reader of records opens. Those of a cluster that is up hold pipes and sockets."""


def check_contents(record: RecordFolder) -> None:
    """Raise `UsageError` if something in the record is not what a run leaves.

    - A pipe, a socket or a device: whoever reads it may wait for ever.
    - A file in the place of a folder, or a folder in the place of a file.
    - A link that leads out of the record: a report would show what only the reader of the record may see.
    """
    home = os.path.realpath(record.path)
    again = f"copy the record again from where it was made, or remove {record}"
    for entry in _entries(record):
        where = str(entry.path)
        try:
            mode = entry.stat().st_mode
        except OSError:
            # A link to nothing: what it stands for is missing.
            continue
        if entry.is_symlink() and not is_below(os.path.realpath(where), home):
            raise UsageError(
                "a link in the record leads out of it",
                where=where,
                got=f"a link to {os.readlink(where)}",
                allowed="files and folders, and links to files of the record",
                next=again,
            )
        kind, is_folder = special_kind(mode), stat.S_ISDIR(mode)
        if not is_folder and kind is not None:
            raise UsageError(
                "something in the record is neither a file nor a folder",
                where=where,
                got=kind,
                allowed="regular files and folders",
                next=again,
            )
        if Path(where).parent == record.path and entry.name in (_FILES if is_folder else _FOLDERS):
            raise UsageError(
                f"{entry.name} of the record is {'a folder' if is_folder else 'not a folder'}",
                where=where,
                allowed="a regular file" if is_folder else "a folder",
                next=again,
            )


def is_of_record(name: str) -> bool:
    """Whether a file of a record, by its path there, is one that readers of records look for."""
    # Not above: a client process, which reads a manifest's structs, does without PyArrow.
    from ebbtide.record.tables import TABLES

    top = Path(name).parts[0]
    return top in _FILES | _FOLDERS | {CLIENTS_DIR} or top.removesuffix(".parquet") in TABLES


def is_below(path: str, home: str) -> bool:
    """Whether a resolved path is the folder `home`, or lies in it."""
    return path == home or path.startswith(home.rstrip(os.sep) + os.sep)


def _entries(record: RecordFolder) -> Iterator[os.DirEntry[str]]:
    """Yield everything in a record that is read; folders that are links are not entered."""
    folders = [(str(record), 0)]
    while folders:
        folder, depth = folders.pop()
        if depth > _DEPTH_MAX:
            raise UsageError(
                "folders of the record nest too deep",
                where=f"{folder[:_SHOWN_MAX]}...",
                got=f"more than {_DEPTH_MAX} levels",
                allowed=f"up to {_DEPTH_MAX} levels; a run makes 5",
                next="remove these folders, or copy the record again from where it was made",
            )
        try:
            found = list(os.scandir(folder))
        except OSError as error:
            raise UsageError("a folder of the record cannot be read", where=folder, got=error.strerror) from None
        for entry in found:
            if folder == str(record) and entry.name in _NOT_READ:
                continue
            yield entry
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, depth + 1))
