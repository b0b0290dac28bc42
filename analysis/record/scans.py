"""Reads each table of a record once, for everybody who asks something of its rows.

    class AckedSends(Scan[int]):
        columns = {"sends": ("status",)}

        def add(self, rows: Rows) -> None:
            self._count += int(rows.where_word("status", "acked").sum())

    record.seen(AckedSends)

The judge's scans are named beforehand (`Record.asked`), and the pass that sums up a table feeds them all. What is only
asked where an anomaly can occur comes from the pass that chooses rows (`Record.asked_if_possible`). A scan that nobody
named reads its tables when somebody first asks for its result.

A scan takes each row once, however often its record is summed up: where the jobs of several records fail, each
record is summed up once more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from threading import Lock
from typing import Any, ClassVar, Generic, TypeVar

from analysis.record.files import RecordFiles
from analysis.record.row_batches import Rows, batches, for_each, row_groups
from ebbtide.errors import EbbtideError

R = TypeVar("R")

Add = Callable[[Rows], None]

_IN_ANY_ORDER = ("sends", "polls", "replicas")
"""Several threads read these tables. The rows of all others come in the order of their files."""


class Scan(Generic[R]):
    """What is asked of the rows of some tables.

    `columns`: the columns of each table, in the order in which the tables are read. `is_torn`: reading a table failed,
    and nobody knows which of its rows were taken; another scan must begin anew.
    """

    columns: ClassVar[Mapping[str, tuple[str, ...]]]

    def __init__(self, record: RecordFiles) -> None:
        self.has_read: set[str] = set()
        self.is_torn = False
        self._lock = Lock()
        self._error: Exception | None = None

    @classmethod
    def needs_items(cls, record: RecordFiles) -> bool:
        """Whether it must know which anomalies the record has, before it reads a row."""
        return False

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter; the tables before it are read by then."""
        return True

    def add(self, rows: Rows) -> None:
        """Take rows of one of the tables; one batch at a time."""
        raise NotImplementedError

    def result(self) -> R:
        """Return the answer; all rows were read."""
        raise NotImplementedError

    def feed(self, rows: Rows) -> None:
        """Take rows. An error of the scan's own stops no other scan: whoever asks for the answer gets it."""
        with self._lock:
            if self._error is None:
                try:
                    self.add(rows)
                except EbbtideError:
                    raise
                except Exception as error:
                    self._error = error

    @cached_property
    def answer(self) -> R:
        """The answer."""
        if self._error is not None:
            raise self._error
        return self.result()


@contextmanager
def fed(scans: Sequence[Scan[Any]], table: str) -> Iterator[Sequence[Scan[Any]]]:
    """Yield the scans that want a table and have not read it; the block feeds them all of its rows."""
    unread = [scan for scan in scans if table not in scan.has_read]
    wanting = [scan for scan in unread if table in scan.columns and scan.is_wanted(table)]
    try:
        yield wanting
    except BaseException:
        for scan in wanting:
            scan.is_torn = True
        raise
    for scan in unread:
        scan.has_read.add(table)


def feed_table(
    record: RecordFiles, table: str, scans: Sequence[Scan[Any]], *others: tuple[Collection[str], Add]
) -> None:
    """Read a table once, for all scans that want it, and for `others`, which several threads may call at once.

    A scan that has read it does not get it again. Each of the others has the columns that it reads. Raises
    `UsageError` for values that the record format does not have, and for files that are damaged.
    """
    with fed(scans, table) as wanting, record.kept_open(*[table] if wanting or others else []):
        asked = [*others, *((scan.columns[table], scan.feed) for scan in wanting)]
        wanted, takers = {name for columns, _ in asked for name in columns}, [take for _, take in asked]
        groups = row_groups(record, 0, table) if takers else []
        for some in [groups] if table in _IN_ANY_ORDER else [[group] for group in groups]:
            for_each(some, lambda group: [take(rows) for rows in batches(group, wanted) for take in takers])
