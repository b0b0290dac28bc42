"""The folder of a run record: its files by name, and the files of its tables."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ebbtide.record.tables import table_files
from ebbtide.untrusted.files import is_file, is_folder, read_file


class RecordFolder(msgspec.Struct, frozen=True):
    """The folder of a record. Whoever judges the record asks it for names, and holds no path."""

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

    def files(self, table: str) -> list[Path]:
        """Return the Parquet files of a table, sorted; empty when it is missing."""
        return table_files(self.path, table)

    def name_of(self, path: Path) -> str:
        """Return the name in the record of a file below its folder."""
        return str(path.relative_to(self.path))
