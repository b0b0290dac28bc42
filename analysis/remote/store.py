"""The records at addresses of Hadoop file systems, for as long as a Spark session is there to reach them."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from analysis.remote.files import RemoteFiles
from analysis.remote.record import RemoteRecord
from ebbtide.record.manifest import MANIFEST
from ebbtide.scratch import Scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RemoteStore:
    """Finds records; their copies are in one temporary folder, which goes when the block ends."""

    def __init__(self, spark: SparkSession) -> None:
        self._files = RemoteFiles(spark)
        self._scratch = Scratch()
        self._found = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()
        self._scratch.remove()

    def records_in(self, address: str) -> list[RemoteRecord]:
        """A record itself, or the records in a folder that is none, in the order of their names.

        Raises `UsageError` for an address that is none or may not be read, `HarnessError` where nothing answers.
        """
        address = self._files.qualified(address)
        there = self._files.stat(address)
        if there is None or not there.is_folder:
            return [self._record(address)]
        entries = self._files.listing(address)
        if any(entry.name == MANIFEST for entry in entries):
            return [self._record(address)]
        below = [
            f"{address.rstrip('/')}/{entry.name}"
            for entry in entries
            if entry.is_folder and not entry.name.startswith(".")
        ]
        found = [one for one in below if self._files.stat(f"{one}/{MANIFEST}") is not None]
        return [self._record(one) for one in found or [address]]

    def _record(self, address: str) -> RemoteRecord:
        self._found += 1
        folder = self._scratch.path / str(self._found) / (address.rpartition("/")[2] or "record")
        return RemoteRecord(self._files, address, folder)
