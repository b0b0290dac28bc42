"""A run record as the judge sees it: each small file is read once, and tables come in batches.

    record = Record.at(RecordFolder(path))
    record.steps, record.scenario, record.gaps
    for batch in record.batches("sends", ["value"], pc.field("acks") == -1): ...

`judging.one_record.prepare_record` makes it once the record's tables are complete. Rows are never kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from analysis.record.small_files import SmallFiles
from analysis.record.whole import Gap, gaps_of
from ebbtide.record.tables import TABLES
from ebbtide.untrusted.parquet import read_batches


class Record(SmallFiles):
    """A run record. Raises `UsageError` where a file that is asked for is damaged."""

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """What the record once had and now lacks."""
        return gaps_of(self)

    def batches(
        self, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in batches that are not empty.

        All columns and all rows are read by default. A nullable column that a file lacks reads as null.
        """
        files = self.folder.files(table)
        ahead = {"batch_readahead": 2, "fragment_readahead": 1}
        yield from read_batches(files, table, schema=TABLES[table], columns=columns, where=where, **ahead)

    def has_row(self, table: str, where: pc.Expression) -> bool:
        """Whether any row of a table fits."""
        return next(self.batches(table, ["partition"], where), None) is not None


def of_partition(topic: str, partition: int) -> pc.Expression:
    """Match the rows of one partition."""
    return (pc.field("topic") == topic) & (pc.field("partition") == partition)
