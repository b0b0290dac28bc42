"""Holds sums by buckets of blocks; those that memory has no room for lie in files.

A sum is one row of a structured array. Sums with equal keys are added up. A bucket has the sums of some blocks of one
partition, or of some blocks of values. One bucket is in memory at a time when the sums are read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from analysis.record.groups import Groups, Ints, parts_of
from ebbtide.errors import HarnessError

Sums: TypeAlias = NDArray[np.void]
Key: TypeAlias = tuple[Hashable, ...]

HELD_BYTES_MAX = 256 << 20
"""Sums of one kind above so many bytes lie in files."""
_ADDED_UP_MIN = 1 << 16
"""A bucket is added up when it has so many sums, and twice as many as after the last time."""
_BUCKET_BITS = 18
_BUCKETS = 64

BLOCK_SUM = np.dtype(
    [("block", "i8"), ("source", "i4"), ("oldest", "i4"), ("newest", "i4")]
    + [(name, "i8") for name in ("rows", "mask", "xor", "sum", "epochs")]
)
"""The rows that one source has in a block of offsets.

They are how many, at which offsets (a bit each), their hashes taken together in two ways, and their leader epochs: the
oldest, the newest, and their hashes with those of the rows.
"""
VALUE_SUM = np.dtype([("block", "i8"), ("kind", "i1"), ("rows", "i8"), ("mask", "i8")])
"""The rows of one kind with values in a block of values."""

_ADDED_BY: Mapping[str, np.ufunc] = {
    "rows": np.add,
    "mask": np.bitwise_or,
    "xor": np.bitwise_xor,
    "sum": np.add,
    "epochs": np.add,
    "oldest": np.minimum,
    "newest": np.maximum,
}


class _Bucket:
    def __init__(self) -> None:
        self.parts: list[Sums] = []
        self.held = 0
        self.added_up = 0
        self.file: Path | None = None


class SumStore:
    """Sums of one type, by bucket; several threads may add some. `folder` makes the folder for files."""

    def __init__(self, dtype: np.dtype[Any], folder: Callable[[], Path]) -> None:
        self._dtype, self._folder = dtype, folder
        self._keys = [name for name in dtype.names or () if name not in _ADDED_BY]
        self._buckets: dict[Key, _Bucket] = {}
        self._held = 0
        self._lock = Lock()

    def add(self, place: Key, **columns: Ints) -> None:
        """Add sums of blocks of a partition, or of values: one array a column; a column that is not given is 0."""
        sums = np.zeros(len(columns["block"]), self._dtype)
        for name, column in columns.items():
            sums[name] = column
        for (number,), here in parts_of([(sums["block"] >> _BUCKET_BITS) & (_BUCKETS - 1)]):
            self._add((*place, number), sums if len(here) == len(sums) else sums[here])

    def _add(self, key: Key, sums: Sums) -> None:
        with self._lock:
            bucket = self._buckets.setdefault(key, _Bucket())
            bucket.parts.append(sums)
            bucket.held += len(sums)
            self._held += len(sums)
            if bucket.held >= max(_ADDED_UP_MIN, 2 * bucket.added_up):
                self._add_up(bucket)
            if self._held * self._dtype.itemsize > HELD_BYTES_MAX:
                for one in self._buckets.values():
                    self._write(one)

    def _add_up(self, bucket: _Bucket) -> None:
        added = self._added(bucket.parts)
        self._held -= bucket.held - len(added)
        bucket.parts, bucket.held, bucket.added_up = [added], len(added), len(added)

    def _write(self, bucket: _Bucket) -> None:
        if not bucket.held:
            return
        self._add_up(bucket)
        if bucket.file is None:
            bucket.file = self._folder() / f"sums-{id(self)}-{id(bucket)}"
        try:
            with bucket.file.open("ab") as file:
                bucket.parts[0].tofile(file)
        except OSError as error:
            raise HarnessError("sums of rows cannot be stored", where=str(bucket.file), got=str(error)) from None
        self._held -= bucket.held
        bucket.parts, bucket.held, bucket.added_up = [], 0, 0

    def _added(self, parts: Sequence[Sums]) -> Sums:
        """Return sums in the order of their keys, those with equal keys added up."""
        sums = np.concatenate(parts) if parts else np.empty(0, self._dtype)
        if not len(sums):
            return sums
        groups = Groups([np.ascontiguousarray(sums[name]) for name in self._keys], unique=True)
        added = np.empty(len(groups.starts), self._dtype)
        for name in self._dtype.names or ():
            column = np.ascontiguousarray(sums[name])
            added[name] = groups.over(_ADDED_BY[name], column) if name in _ADDED_BY else groups.first(column)
        return added

    def places(self) -> set[Key]:
        """Return the places that have sums, as they were given."""
        return {key[:-1] for key in self._buckets}

    def buckets(self, *place: Hashable) -> Iterator[Sums]:
        """Yield the sums of a place, one array a bucket: in the order of their keys, each key once."""
        for key in sorted((key for key in self._buckets if key[:-1] == place), key=lambda key: int(str(key[-1]))):
            bucket = self._buckets[key]
            written = [] if bucket.file is None else [np.fromfile(bucket.file, self._dtype)]
            yield self._added([*written, *bucket.parts])
