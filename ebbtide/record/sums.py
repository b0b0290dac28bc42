"""SHA256SUMS: the checksum of each file of a record, so that loss and damage show.

The sums are made when the tables are made. The file has the format of `sha256sum`: `cd RUN && sha256sum --check
SHA256SUMS` checks it without Ebbtide. It protects against a partial copy and a bad disk, not against forgery: who
edits a record can write the sums anew. A record without the file, made elsewhere or by an older version, is still
judged.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ebbtide.errors import UsageError
from ebbtide.record.files import ANOMALIES_DIR, JOURNAL_DIR, LOGS_DIR, RecordFolder, write_atomically
from ebbtide.untrusted.files import BYTES_MAX, is_file, open_file, read_file

if TYPE_CHECKING:
    from ebbtide.untrusted.parquet import ParquetSource

SUMS = "SHA256SUMS"

_NOT_OF_THE_RUN = frozenset(
    {SUMS, "verdict.json", "report.html", ANOMALIES_DIR, JOURNAL_DIR, LOGS_DIR, "kept", "cluster"}
)
"""Files that judging writes or that change after the run, and logs, whose compression has its own checksum."""

_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


def write_sums(record: RecordFolder) -> None:
    """Write SHA256SUMS anew, for every file that the run left."""
    _write(record, {name: _sha256(record / name) for name in files_of_run(record)})


def update_sums(record: RecordFolder, is_new: Callable[[str], bool]) -> None:
    """Write new sums for the files for which `is_new` is true.

    Names are relative to the record. Does nothing on a record without SHA256SUMS.
    """
    sums = read_sums(record)
    if sums is None:
        return
    kept = {name: digest for name, digest in sums.items() if not is_new(name)}
    _write(record, kept | {name: _sha256(record / name) for name in files_of_run(record) if is_new(name)})


def forget_sums(record: RecordFolder, is_old: Callable[[str], bool]) -> None:
    """Drop the entries of files that will be replaced.

    Does nothing on a record without SHA256SUMS.
    """
    sums = read_sums(record)
    if sums is not None:
        _write(record, {name: digest for name, digest in sums.items() if not is_old(name)})


def read_sums(record: RecordFolder) -> dict[str, str] | None:
    """Return the SHA-256 of each file by its name; None without SHA256SUMS.

    Raises `UsageError` when SHA256SUMS is damaged.
    """
    path = record / SUMS
    if not os.path.lexists(path):
        return None
    text = read_file(path, what=SUMS).decode(errors="replace")
    lines = [_LINE.fullmatch(line) for line in text.split("\n")[:-1]]
    names = [PurePosixPath(line[2]) for line in lines if line is not None]
    has_outside_name = any(name.is_absolute() or ".." in name.parts for name in names)
    if not text.endswith("\n") or not all(lines) or has_outside_name:
        raise UsageError(
            "SHA256SUMS is damaged",
            where=str(path),
            allowed="lines as sha256sum writes them",
            next="copy the record again from where it was made, or remove this file to judge the record without it",
        )
    return {line[2]: line[1] for line in lines if line is not None}


def files_below(record: RecordFolder, folder: str) -> list[str]:
    """Return the names of all files and links in a folder of the record.

    Part files that a killed writer left are not included.
    """
    top = record / folder
    found = [top] if top.is_symlink() else [path for path in top.rglob("*") if path.is_symlink() or not path.is_dir()]
    return [record.name_of(path) for path in found if path.suffix != ".part"]


def files_of_run(record: RecordFolder) -> list[str]:
    """Return the names of all files that `write_sums` would list."""
    return [record.name_of(path) for path in _files(record)]


def changed_files(
    record: RecordFolder, sums: Mapping[str, str], sources: Mapping[str, ParquetSource] | None = None
) -> list[str]:
    """Return the names of the files whose content is not what was summed.

    `sources`: the files that somebody reads besides, by their names.
    """
    known = sources or {}

    def is_changed(name: str, digest: str) -> bool:
        if name in known:
            return known[name].sha256() != digest
        path = record / name
        return is_file(path) and (_is_too_large(path) or _sha256(path) != digest)

    return [name for name, digest in sums.items() if is_changed(name, digest)]


def _is_too_large(path: Path) -> bool:
    """Whether a file is larger than any reader takes, so that the run did not leave it so; a hole takes no place."""
    return path.suffix != ".parquet" and path.stat().st_size > BYTES_MAX


def _files(record: RecordFolder) -> Iterator[Path]:
    for top in sorted(record.path.iterdir()):
        # A link to a folder may lead anywhere on the host.
        if top.name in _NOT_OF_THE_RUN or top.name.startswith(".") or top.is_symlink():
            continue
        # The excluded folders may be the disks of nodes that still run.
        for path in (top, *sorted(top.rglob("*"))):
            if is_file(path) and not path.is_symlink() and path.suffix != ".part":
                yield path


def _write(record: RecordFolder, sums: dict[str, str]) -> None:
    write_atomically(record / SUMS, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode())


def _sha256(path: Path) -> str:
    with open_file(path, what="a file of the record") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
