"""Checks values that no footer vouches for, within passes that are made anyway, and refuses what means something else.

A null where none may be (where the footers do not tell), a word that the record format does not know, an offset
below 0: each would silently drop its row from a rule, and a loss with it. So none of them is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from analysis.reconcile.tables import RecordTables, RunFiles
from ebbtide.errors import UsageError
from ebbtide.record.tables import TABLES

_WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    "sends": {"txn_outcome": ("committed", "aborted", "unknown")},
    "polls": {"isolation": ("read_committed", "read_uncommitted")},
}
_WORDS_OF_GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "sends": {"status": ("acked", "failed", "unknown")},
    "watermarks": {"source": ("list_offsets", "fetch", "checkpoint")},
}
"""Of columns that the facts are grouped by: each group is looked at, instead of each row."""


class _Check(NamedTuple):
    column: str
    allowed: str
    fails: Column


def flaw(tables: RecordTables, table: str) -> Column:
    """An aggregate: the number of a check that some row of the table fails; null when none does."""
    checks = enumerate(_checks(tables, table))
    failed = [F.when(check.fails, F.lit(number)) for number, check in checks]
    return F.max(F.coalesce(*failed, F.lit(None).cast("int"))).alias("flaw")


def refuse_flaw(tables: RecordTables, table: str, run: int, record: RunFiles, row: Mapping[str, Any]) -> None:
    """Raise `UsageError` where a row of facts of `table` has a `flaw`, or is of a word that means nothing.

    Looks for a row to show only then.
    """
    for column, words in _WORDS_OF_GROUPS.get(table, {}).items():
        if column in row and row[column] is not None and row[column] not in words:
            raise _refused(record, table, column, repr(row[column]), ", ".join(words))
    number = row.get("flaw")
    if number is None:
        return
    check = _checks(tables, table)[number]
    rows = getattr(tables, table).where((F.col("run") == run) & check.fails)
    (value,) = rows.select(check.column).first()
    raise _refused(record, table, check.column, "null" if value is None else repr(value), check.allowed)


def refuse_count(record: RunFiles, table: str, rows: int) -> None:
    """Raise `UsageError` where Spark read another number of rows than the footers promise."""
    if rows != record.rows[table]:
        raise UsageError(
            "not every row of a table was read",
            where=f"{record.record}: table {table}",
            got=f"{rows:,} rows",
            allowed=f"{record.rows[table]:,} rows, as the files' footers say",
        )


def misfit(record: RunFiles, table: str, error: Exception) -> UsageError:
    """The error for facts that cannot be, whatever the footers and the checks say."""
    return UsageError("a table's values do not fit", where=f"{record.record}: table {table}", got=str(error))


def _refused(record: RunFiles, table: str, column: str, got: str, allowed: str) -> UsageError:
    where = f"{record.record}: table {table}, column {column}"
    return UsageError("a value that the record format does not have", where=where, got=got, allowed=allowed)


def _checks(tables: RecordTables, table: str) -> list[_Check]:
    checks = [
        _Check(name, f"{TABLES[table].field(name).type}, never null", F.col(name).isNull())
        for name in sorted(tables.untold.get(table, ()))
    ]
    for column, words in _WORDS.get(table, {}).items():
        checks.append(_Check(column, ", ".join(words), ~F.col(column).isin(*words)))
    if table in ("sends", "polls"):
        # What is not acked has no offset that counts.
        counts = F.col("status") == "acked" if table == "sends" else F.lit(True)
        checks.append(_Check("offset", "0 to 2^63 - 1", counts & (F.col("offset") < 0)))
    return checks
