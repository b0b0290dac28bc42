"""The one way to read Parquet files that somebody else may have made.

A few bytes can stand for billions of rows, so the footer of each file is checked before a row is read: the file must
have about as many bytes as its rows need. Everything that is wrong with a file is one kind of error.

Whoever reads a file several times keeps its `ParquetSource`: its footer is read once, and a small file is opened once.
In one pass, all who read a larger file share one open of it.
"""

from __future__ import annotations

import contextlib
import filecmp
import hashlib
import weakref
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pyarrow.parquet as pq

from ebbtide.errors import EbbtideError, UsageError
from ebbtide.untrusted.files import is_file, open_file, read_file
from ebbtide.untrusted.values import lack_of_host

ROWS_FREE, ROWS_A_BYTE_MAX = 50_000, 5
"""Tables of real runs have less than one row a byte: each row has an offset and a time of its own."""
ELEMENTS_FREE, ELEMENTS_A_ROW_MAX = 10_000, 100
"""Lists are of a partition's replicas, which are few; work grows with the square of their number."""
BYTES_FREE, EXPANSION_MAX = 256 << 20, 500
"""Uncompressed, tables of real runs are less than fifty times as large."""

HELD_FILE_MAX, HELD_MAX = 8 << 20, 64 << 20
"""The bytes of a file that is held in memory, and of all that are held at once. A file of 8 MiB has 500,000 sends."""

KEPT_OPEN_MAX = 200
"""How many files are kept open at once: a process may have 1,024."""
_CHUNK_BYTES = 1 << 20

READ_ERRORS = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, MemoryError)
"""What pyarrow raises for a damaged file, for columns that are not there, and where the host lacks memory."""


def damage_of(path: Path, error: Exception) -> EbbtideError:
    """Return the error to raise for one of `READ_ERRORS`: the file is damaged, or the host lacks memory to read it."""
    return lack_of_host(error, "a table's file", path) or UsageError(
        "a table's file is damaged", where=str(path), got=str(error), next="copy the record here again"
    )


class ParquetSource:
    """A Parquet file that is read several times. It may not change meanwhile.

    A small file is opened once, and its bytes are held for as long as somebody holds the source.
    """

    _held_bytes = 0
    _kept_open = 0

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: pa.NativeFile | None = None

    def __str__(self) -> str:
        """Return the path."""
        return str(self.path)

    @cached_property
    def content(self) -> pa.Buffer | None:
        """The bytes of the file; None: it is too large to be held. Raises `UnreadableFile`."""
        with contextlib.suppress(OSError):  # whoever opens it says so
            size = self.path.stat().st_size
            if size <= HELD_FILE_MAX and ParquetSource._held_bytes + size <= HELD_MAX:
                content = read_file(self.path, what=_WHAT)
                ParquetSource._hold(len(content))
                weakref.finalize(self, ParquetSource._hold, -len(content))
                return _in_native_memory(content)
        return None

    def has_content_of(self, other: ParquetSource) -> bool:
        """Whether both files have the same bytes; false for what is no regular file."""
        with contextlib.suppress(UsageError):  # whoever reads it says so
            if is_file(self.path) and is_file(other.path) and self.content is not None and other.content is not None:
                return bool(self.content.equals(other.content))
        return filecmp.cmp(self.path, other.path, shallow=False)

    @contextlib.contextmanager
    def kept_open(self) -> Iterator[None]:
        """Let all who read the file until the end of the block share one open of it."""
        if self._file is None and is_file(self.path) and self.content is None:
            with contextlib.suppress(OSError):  # whoever reads it says so
                self._file = pa.OSFile(str(self.path)) if ParquetSource._kept_open < KEPT_OPEN_MAX else None
            if self._file is not None:
                ParquetSource._kept_open += 1
                try:
                    yield
                finally:
                    ParquetSource._kept_open -= 1
                    self._file.close()
                    self._file = None
                return
        yield

    def _opened(self) -> pa.NativeFile | None:
        """Return the file as it is held, or kept open; None: it must be opened."""
        return self._file if self.content is None else pa.BufferReader(self.content)

    @cached_property
    def footer(self) -> pq.FileMetaData:
        """The footer. Raises as `footer_of` does."""
        file = self._opened()
        return footer_of(self.path) if file is None else _checked_footer(file, file.size(), self.path)

    def open(self, **settings: Any) -> pq.ParquetFile:
        """Open the file; `settings` are those of pyarrow's `ParquetFile`."""
        return pq.ParquetFile(self._opened() or self.path, metadata=self.footer, **settings)

    def sha256(self) -> str:
        """Return the checksum of the file in hexadecimal digits. Raises `UnreadableFile`."""
        file = self._opened()
        if file is None:
            with open_file(self.path, what=_WHAT) as opened:
                return hashlib.file_digest(opened, "sha256").hexdigest()
        digest = hashlib.sha256()
        for at in range(0, file.size(), _CHUNK_BYTES):
            digest.update(file.read_at(_CHUNK_BYTES, at))
        return digest.hexdigest()

    def fragment(self) -> ds.Fragment:
        """Return the file as a part of a dataset."""
        if self.content is None:
            return _FORMAT.make_fragment(str(self.path), filesystem=fs.LocalFileSystem())
        return _FORMAT.make_fragment(self.content)

    @classmethod
    def _hold(cls, size: int) -> None:
        cls._held_bytes += size


def _in_native_memory(content: bytes) -> pa.Buffer:
    """Copy bytes out of Python's memory.

    A scan may still drop its buffers in a thread while the interpreter ends. To drop bytes of Python, that thread needs
    the interpreter, and the process would abort (https://github.com/apache/arrow/issues/36389).
    """
    stream = pa.BufferOutputStream()
    stream.write(content)
    return stream.getvalue()


_WHAT = "a table's file"
_FORMAT = ds.ParquetFileFormat()


def footer_of(path: Path) -> pq.FileMetaData:
    """Return the footer of a Parquet file. Raises `UsageError` if the file is damaged or stands for too many rows.

    Raises `HarnessError` if the host lacks memory, as everything here does.
    """
    with open_file(path, what=_WHAT) as file:
        size = file.seek(0, 2)
        file.seek(0)
        return _checked_footer(file, size, path)


def _checked_footer(file: Any, size: int, path: Path) -> pq.FileMetaData:
    try:
        footer = pq.read_metadata(file)
        uncompressed = sum(footer.row_group(at).total_byte_size for at in range(footer.num_row_groups))
        elements = _elements_of_longest_column(footer)
    except READ_ERRORS as error:
        raise damage_of(path, error) from None
    rows_max, bytes_max = ROWS_FREE + size * ROWS_A_BYTE_MAX, BYTES_FREE + size * EXPANSION_MAX
    if not 0 <= footer.num_rows <= rows_max or not 0 <= uncompressed <= bytes_max:
        raise UsageError(
            "a table's file stands for more rows than its bytes can hold",
            where=str(path),
            got=f"{footer.num_rows:,} rows, {uncompressed:,} bytes uncompressed, in {size:,} bytes",
            allowed=f"up to {rows_max:,} rows and {bytes_max:,} bytes",
        )
    elements_max = ELEMENTS_FREE + footer.num_rows * ELEMENTS_A_ROW_MAX
    if not 0 <= elements <= elements_max:
        raise UsageError(
            "lists in a table's file have more elements than a partition can have replicas",
            where=str(path),
            got=f"{elements:,} elements in a column of {footer.num_rows:,} rows",
            allowed=f"up to {elements_max:,} elements",
        )
    return footer


def _elements_of_longest_column(footer: pq.FileMetaData) -> int:
    """Return how many values the longest column has; each element of a list is one."""
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    columns = range(footer.num_columns)
    return max((sum(group.column(at).num_values for group in groups) for at in columns), default=0)


def read_rows(
    files: Sequence[Path | ParquetSource],
    what: str,
    *,
    schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
) -> pa.Table:
    """Return rows of a table's files, all by default. Raises `UsageError`, which calls the table `what`.

    With `schema`, a nullable column that a file lacks reads as null.
    """
    with _explain_errors(files, what):
        table = _dataset(files, schema).to_table(columns=None if columns is None else list(columns), filter=where)
        table.validate(full=True)  # a text may not be UTF-8
        return table


def read_batches(
    files: Sequence[Path | ParquetSource],
    what: str,
    *,
    schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    **settings: Any,
) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches that are not empty; `settings` are those of pyarrow's `to_batches`."""
    asked = None if columns is None else list(columns)
    with _explain_errors(files, what):
        batches = _dataset(files, schema).to_batches(columns=asked, filter=where, **settings)
    while True:
        with _explain_errors(files, what):
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)
        if batch is None:
            return
        if batch.num_rows:
            yield batch


def _dataset(files: Sequence[Path | ParquetSource], schema: pa.Schema | None) -> ds.Dataset:
    sources = [one if isinstance(one, ParquetSource) else ParquetSource(one) for one in files]
    for source in sources:
        _ = source.footer  # raises if it is damaged
    fragments = [source.fragment() for source in sources]
    if schema is None:
        schema = fragments[0].physical_schema if fragments else pa.schema([])
    return ds.FileSystemDataset(fragments, schema, _FORMAT)


@contextlib.contextmanager
def _explain_errors(files: Sequence[Path | ParquetSource], what: str) -> Iterator[None]:
    try:
        yield
    except READ_ERRORS as error:
        paths = [one.path if isinstance(one, ParquetSource) else one for one in files]
        where = str(paths[0].parent if len(paths) > 1 else paths[0]) if paths else None
        raise lack_of_host(error, f"the table {what}", where) or UsageError(
            f"the table {what} cannot be read", where=where, got=str(error)
        ) from None
