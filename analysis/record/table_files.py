"""Checks a record's Parquet files by their footers, before anything reads a row.

A reader of rows meets a damaged file or a column of another type in the middle of its work, one at a time.
The footers say all of it first: what cannot be read, what is missing, what is of another type, and whether
the values fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from ebbtide.errors import EbbtideError, UsageError
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import MANIFEST, Manifest
from ebbtide.record.tables import TABLES
from ebbtide.untrusted.parquet import READ_ERRORS, ParquetSource, damage_of

_DIGITS_MAX = 10
"""The digits of the largest int32; Python refuses to parse very long numbers."""
_SHOWN_MAX = 60


class TableFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that can be read, with the number of its rows and the columns of the record format that it has.

    `untold`: the columns without nulls of which the footer does not say whether they have any.
    """

    source: ParquetSource
    rows: int
    columns: frozenset[str]
    untold: frozenset[str] = frozenset()


def check_manifest(record: RecordFolder, manifest: Manifest) -> list[EbbtideError]:
    """Return what is wrong with the manifest's final offsets and client ids."""
    problems: list[EbbtideError] = []
    where = f"{record / MANIFEST}: final_offsets"
    for name, ends in manifest.final_offsets.items():
        try:
            TopicPartition.parse(name)
        except ValueError:
            problems.append(UsageError("not a partition", where=where, got=_short(name), allowed="topic-partition"))
        stable = 0 if ends.last_stable is None else ends.last_stable
        if not all(0 <= offset < 2**63 for offset in (ends.log_start, ends.high_watermark, stable)):
            got = f"{name}: log_start {ends.log_start}, high_watermark {ends.high_watermark}, last_stable {stable}"
            allowed = "0 to 2^63 - 1"
            problems.append(UsageError("not valid offsets", where=where, got=got, allowed=allowed))
    final = manifest.final_consumer
    ids = [("producers", name) for name in manifest.producers]
    for key, name in [*ids, *([("final_consumer", str(final))] if final is not None else [])]:
        if not _is_number(name):
            where = f"{record / MANIFEST}: {key}"
            problems.append(UsageError("not a client's id", where=where, got=_short(name), allowed="0 to 2^31 - 1"))
    return problems


def _is_number(text: str) -> bool:
    """Return whether the text is a non-negative int32.

    The text may be too long to be made a number.
    """
    return (
        text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and text == str(int(text)) and int(text) < 2**31
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}...")


def check_file(source: ParquetSource, table: str, problems: list[EbbtideError]) -> TableFile | None:
    """Return a file of a table, checked by its footer; None if it cannot be read. Adds what is wrong to `problems`."""
    try:
        footer = source.footer
        found = footer.schema.to_arrow_schema()
    except UsageError as error:
        problems.append(error)
        return None
    except READ_ERRORS as error:
        damage = damage_of(source.path, error)
        if not isinstance(damage, UsageError):
            raise damage from None
        problems.append(damage)
        return None
    if footer.num_rows == 0:
        return TableFile(source=source, rows=0, columns=frozenset())
    columns = set()
    # Who reads the record with Spark or DuckDB does not distinguish upper from lower case.
    spelled = [name.lower() for name in found.names]
    for field in TABLES[table]:
        wrong = None
        if spelled.count(field.name) > 1:
            wrong = UsageError("a column is there more than once", got=f"{spelled.count(field.name)} columns")
        elif field.name not in found.names:
            wrong = None if field.nullable else UsageError("a column is missing")
        else:
            kind = found.field(field.name).type
            if _can_be_cast(kind, field.type):
                columns.add(field.name)
                wrong = _values_problem(footer, field)
            elif not pt.is_null(kind):
                wrong = UsageError("a column is of another type", got=str(kind))
            elif not field.nullable:
                wrong = UsageError("a column has no values")
        if wrong is not None:
            where = f"table {table}, column {field.name} ({source})"
            allowed = f"{field.type}{' or null' if field.nullable else ''}"
            problems.append(UsageError(wrong.what, where=where, got=wrong.got, allowed=allowed))
    untold = frozenset(name for name in columns if not TABLES[table].field(name).nullable and _is_untold(footer, name))
    return TableFile(source=source, rows=footer.num_rows, columns=frozenset(columns), untold=untold)


def _can_be_cast(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of type `found` can be cast to `wanted`, as far as the types say."""
    if pt.is_dictionary(found):
        found = found.value_type
    if pt.is_list(wanted) and (pt.is_list(found) or pt.is_large_list(found)):
        return pt.is_null(found.value_type) or _can_be_cast(found.value_type, wanted.value_type)
    return bool(
        (pt.is_integer(wanted) and pt.is_integer(found))
        or (pt.is_string(wanted) and (pt.is_string(found) or pt.is_large_string(found)))
        or (pt.is_boolean(wanted) and pt.is_boolean(found))
    )


def _values_problem(footer: pq.FileMetaData, field: pa.Field) -> UsageError | None:
    """Return forbidden nulls and integers out of range, as far as the footer shows."""
    for statistics in _statistics(footer, field.name):
        if not field.nullable and statistics.has_null_count and statistics.null_count > 0:
            return UsageError("a column has nulls", got=f"{statistics.null_count} nulls")
        if pt.is_integer(field.type) and statistics.has_min_max:
            most = 2 ** (field.type.bit_width - 1)
            for value in (statistics.min, statistics.max):
                if not -most <= value < most:
                    return UsageError("a value is out of range", got=str(value))
    return None


def _is_untold(footer: pq.FileMetaData, column: str) -> bool:
    """Return whether a row group omits how many nulls the column has; false for lists."""
    chunks: int = footer.num_row_groups * sum(
        footer.schema.column(at).path == column for at in range(footer.num_columns)
    )
    return sum(1 for statistics in _statistics(footer, column) if statistics.has_null_count) < chunks


def _statistics(footer: pq.FileMetaData, column: str) -> Iterator[Any]:
    """Yield a column's statistics, one a row group; none for lists.

    Statistics do not count the nulls of lists themselves.
    """
    indexes = [index for index in range(footer.num_columns) if footer.schema.column(index).path == column]
    for index in indexes:
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(index).statistics
            if statistics is not None:
                yield statistics
