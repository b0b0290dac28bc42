"""Checks the values that no footer vouches for, and refuses meaningless ones.

The checks run within passes that are made anyway. They find a null where none may be (if the
footers do not say), a word that the record format does not have, and an offset below 0. Each would
silently drop its row from a rule, and a loss with it. So none of them is judged.
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
    "commits": {"status": ("acked", "failed", "unknown", "served")},
}
"""The allowed words of columns that facts are grouped by.

Each group is checked, instead of each row.
"""


class _Check(NamedTuple):
    column: str
    allowed: str
    fails: Column


def flaw_number(tables: RecordTables, table: str) -> Column:
    """Return an aggregate: the number of a check that some row fails, or null."""
    checks = enumerate(_checks(tables, table))
    failed = [F.when(check.fails, F.lit(number)) for number, check in checks]
    return F.max(F.coalesce(*failed, F.lit(None).cast("int"))).alias("flaw")


def refuse_flaw(tables: RecordTables, table: str, run: int, record: RunFiles, row: Mapping[str, Any]) -> None:
    """Raise `UsageError` where a row of facts has a `flaw` or an unknown word.

    Only then it looks for a row of `table` to show.
    """
    for column, words in _WORDS_OF_GROUPS.get(table, {}).items():
        if column in row and row[column] is not None and row[column] not in words:
            raise _refusal(record, table, column, repr(row[column]), ", ".join(words))
    number = row.get("flaw")
    if number is None:
        return
    check = _checks(tables, table)[number]
    rows = getattr(tables, table).where((F.col("run") == run) & check.fails)
    (value,) = rows.select(check.column).first()
    raise _refusal(record, table, check.column, "null" if value is None else repr(value), check.allowed)


def refuse_count(record: RunFiles, table: str, rows: int) -> None:
    """Raise `UsageError` where Spark read fewer or more rows than the footers promise."""
    if rows != record.rows[table]:
        raise UsageError(
            "not every row of a table was read",
            where=f"{record.record}: table {table}",
            got=f"{rows:,} rows",
            allowed=f"{record.rows[table]:,} rows, as the files' footers say",
        )


def misfit_error(record: RunFiles, table: str, error: Exception) -> UsageError:
    """Return the error for facts that cannot be, whatever footers and checks say."""
    return UsageError("a table's values do not fit", where=f"{record.record}: table {table}", got=str(error))


def _refusal(record: RunFiles, table: str, column: str, got: str, allowed: str) -> UsageError:
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
        # A send that is not acked has no offset that counts.
        counts = F.col("status") == "acked" if table == "sends" else F.lit(True)
        checks.append(_Check("offset", "0 to 2^63 - 1", counts & (F.col("offset") < 0)))
    return checks
