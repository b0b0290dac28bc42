"""The folder of a run record: its files by name, and the files of its tables."""

from __future__ import annotations

import contextlib
import filecmp
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from ebbtide.errors import UsageError
from ebbtide.untrusted.files import is_file, is_folder, read_file


class RecordFolder(msgspec.Struct, frozen=True):
    """The folder of a record. Whoever reads or judges the record asks it for names, and holds no path."""

    path: Path

    def __str__(self) -> str:
        """Return the path, as messages name the record."""
        return str(self.path)

    def __truediv__(self, name: str) -> Path:
        """Return the path of a file or folder of the record, whether it exists or not."""
        return self.path / name

    def has(self, name: str) -> bool:
        """Whether the record has a regular file of this name."""
        return is_file(self / name)

    def has_folder(self, name: str) -> bool:
        """Whether the record has a folder of this name."""
        return is_folder(self / name)

    def bytes(self, name: str) -> bytes:
        """Return the content of a file. Raises `UnreadableFile`."""
        return read_file(self / name, what=name)

    def name_of(self, path: Path) -> str:
        """Return the name in the record of a file below its folder."""
        return str(path.relative_to(self.path))

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the names for which the record has no regular file."""
        return [name for name in names if not self.has(name)]

    def has_table(self, table: str) -> bool:
        """Whether the record has a Parquet file of the table, as `files` finds them; none is opened."""
        return bool(self.paths(table))

    def files(self, table: str, is_same: Callable[[Path, Path], bool] | None = None) -> list[Path]:
        """Return the Parquet files of a table, sorted; empty when it is missing.

        Accepts `<table>.parquet` and `<table>/**/*.parquet`. Of files with the same bytes, only the one with the
        shortest name counts: each row names its client or broker and its time, so a second copy is the same
        observation. `is_same` compares two files of one size, by default by reading both.
        """
        files = self.paths(table)
        by_size: dict[int, list[Path]] = {}
        for path in sorted(files, key=lambda path: (len(str(path)), path)):
            with contextlib.suppress(OSError):  # whoever reads it says so
                alike = by_size.setdefault(path.stat().st_size, [])
                if any((is_same or _is_same)(path, other) for other in alike):
                    files.remove(path)
                else:
                    alike.append(path)
        return files

    def paths(self, table: str) -> list[Path]:
        """Return the files of a table, also those with the same bytes. None is opened."""
        files = sorted((self / table).rglob("*.parquet")) if self.has_folder(table) else []
        return ([self / f"{table}.parquet"] if self.has(f"{table}.parquet") else []) + files

    def why_unreadable(self, path: Path) -> UsageError | None:
        """Return the error for a table's file that cannot be read by its name, or None.

        Spark silently ignores hidden files.
        """
        if any(part.startswith(("_", ".")) for part in path.relative_to(self.path).parts):
            allowed = "names that begin with neither _ nor ."
            return UsageError("a table's file is hidden", where=str(path), got=path.name, allowed=allowed)
        if not is_file(path):
            return UsageError("a table's file is not a regular file", where=str(path), allowed="a regular file")
        return None


def _is_same(one: Path, other: Path) -> bool:
    return filecmp.cmp(one, other, shallow=False)
